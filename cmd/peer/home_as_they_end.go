package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/coveyproject/covey/internal/wake"
	"github.com/coveyproject/covey/node/api"
	folder "github.com/coveyproject/covey/node/blob/disk"
)

// bringAsTheyEnd brings the files of tasks home while others still run: those that have ended since
// it last looked, together. Nothing is lost by one that fails: the others come, and it is tried
// once more at the end.
type bringAsTheyEnd struct {
	h     bringer
	now   func() time.Time
	ended chan struct{}
	news  wake.Signal // something is in the queue, or nothing more comes

	mu     sync.Mutex
	queue  []taskFiles
	asked  map[string]bool // tasks
	over   bool            // nothing more comes
	tasks  int             // that are home
	bytes  int64           // that were written or found
	pace   pace
	report folder.Report
	from   []api.Source
	failed []taskFiles
	errs   []error // of them
}

// startHomecoming begins; it ends with finish, or with ctx.
func startHomecoming(ctx context.Context, h bringer) *bringAsTheyEnd {
	c := &bringAsTheyEnd{h: h, now: time.Now, ended: make(chan struct{}), news: wake.New(), asked: map[string]bool{}}
	c.h.progress = c.wrote
	c.pace.heard(0, c.now())
	go func() {
		defer close(c.ended)
		defer c.h.had.close()
		c.work(ctx)
	}()
	return c
}

func (c *bringAsTheyEnd) wrote(n int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.bytes += n
	c.pace.heard(int(c.bytes), c.now())
}

// add has what tasks left brought, of those that ended well and left something; each once.
func (c *bringAsTheyEnd) add(tasks ...api.Task) {
	if c == nil {
		return
	}
	var parcels []taskFiles
	for _, t := range tasks {
		if t.State == "complete" && t.Output != nil && t.Output.Ref != nil {
			parcels = append(parcels, parcelOf(t))
		}
	}
	c.bring(parcels)
}

func (c *bringAsTheyEnd) bring(parcels []taskFiles) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, p := range parcels {
		if !c.asked[p.task] {
			c.asked[p.task] = true
			c.queue = append(c.queue, p)
		}
	}
	c.news.Set()
}

func (c *bringAsTheyEnd) work(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-c.news:
		}
		c.mu.Lock()
		queue, over := c.queue, c.over
		c.queue = nil
		c.mu.Unlock()
		c.some(ctx, queue)
		if over {
			again, _ := c.takeFailed()
			c.each(ctx, again)
			return
		}
	}
}

// takeFailed is what could not be brought until now.
func (c *bringAsTheyEnd) takeFailed() (failed []taskFiles, errs []error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	failed, errs = c.failed, c.errs
	c.failed, c.errs = nil, nil
	return failed, errs
}

// some brings tasks together, or, where that fails, one by one.
func (c *bringAsTheyEnd) some(ctx context.Context, parcels []taskFiles) {
	if len(parcels) == 0 {
		return
	}
	if err := c.one(ctx, parcels); err == nil {
		return
	} else if len(parcels) == 1 {
		c.fail(ctx, parcels[0], err)
		return
	}
	c.each(ctx, parcels)
}

func (c *bringAsTheyEnd) each(ctx context.Context, parcels []taskFiles) {
	for _, p := range parcels {
		if err := c.one(ctx, []taskFiles{p}); err != nil {
			c.fail(ctx, p, err)
		}
	}
}

func (c *bringAsTheyEnd) fail(ctx context.Context, p taskFiles, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if ctx.Err() == nil {
		c.failed, c.errs = append(c.failed, p), append(c.errs, err)
	}
}

func (c *bringAsTheyEnd) one(ctx context.Context, parcels []taskFiles) error {
	r, err := c.h.bring(ctx, parcels)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.from = c.h.from
	c.report.Wrote += r.Wrote
	c.report.Links += r.Links
	c.report.Left += r.Left
	c.report.Bytes += r.Bytes
	if err != nil {
		return err
	}
	c.tasks += len(parcels)
	return nil
}

// text says how many tasks are home, "" before there are any.
func (c *bringAsTheyEnd) text() string {
	if c == nil {
		return ""
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.asked) == 0 {
		return ""
	}
	text := fmt.Sprintf("home %d of %d (%s", c.tasks, len(c.asked), bytesText(c.bytes))
	if rate := c.pace.at(c.now()); rate > 0 {
		text += fmt.Sprintf(", %s/s", bytesText(int64(rate)))
	}
	return text + ")"
}

// finish waits until all is home that was added. draw is called now and then until then.
func (c *bringAsTheyEnd) finish(draw func()) error {
	if c == nil {
		return nil
	}
	c.mu.Lock()
	c.over = true
	c.news.Set()
	c.mu.Unlock()
	tick := time.NewTicker(redrawEvery)
	defer tick.Stop()
	for {
		select {
		case <-c.ended:
			return c.failure()
		case <-tick.C:
			draw()
		}
	}
}

// failure says what is not home.
func (c *bringAsTheyEnd) failure() error {
	failed, errs := c.takeFailed()
	switch len(failed) {
	case 0:
		return nil
	case 1:
		return fmt.Errorf("the files of task %s are not all in %s: %w", failed[0].task, printable(c.h.place()), errs[0])
	}
	return fmt.Errorf("the files of %d tasks are not all in %s, those of %s among them: %w", len(failed), printable(c.h.place()), failed[0].task, errors.Join(errs[0]))
}

// summary says what came, "" if nothing did.
func (c *bringAsTheyEnd) summary() string {
	if c == nil || c.tasks == 0 {
		return ""
	}
	return printable(c.h.place()) + ": " + homeText(c.tasks, c.report, c.bytes, "", c.from)
}
