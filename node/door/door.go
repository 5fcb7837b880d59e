package door

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/coveyproject/covey/internal/wake"
	"github.com/coveyproject/covey/node/api"
)

// WebPort is where the page is on this machine, if nobody else has that port.
const WebPort = 26840

// codeLife is for how long a code can be made a token.
const codeLife = time.Minute

// maxCodes bounds how many codes are good at once.
const maxCodes = 64

// Listen is where the door is open for as long as the peer runs; without an address it is not.
type Listen struct {
	Addr      string // HOST:PORT
	Cert, Key string // files in PEM; needed beyond this machine
}

// Config of a Door.
type Config struct {
	Path   string // of the file with the tokens
	Listen Listen
	Now    func() time.Time
	Log    *slog.Logger
}

// Door is open or shut. It implements api.DoorBackend.
type Door struct {
	cfg    Config
	tokens *tokens
	ask    chan chan<- opened // has the page's door opened
	fewer  wake.Signal        // a token ended
	api    http.Handler

	mu    sync.Mutex
	codes map[string]code // by hash
	open  []string        // URLs
}

// code becomes a token of this kind.
type code struct {
	want    api.TokenRequest
	expires time.Time
}

type opened struct {
	url string
	err error
}

// New makes a door that is shut. What cannot be served is refused here: an address beyond this
// machine without TLS, a certificate that cannot be read.
func New(cfg Config) (*Door, error) {
	t, err := openTokens(cfg.Path, cfg.Now)
	if err != nil {
		cfg.Log.Error("nobody is let in over TCP", "err", err)
	}
	if _, err := cfg.Listen.certs(cfg.Log); err != nil {
		return nil, err
	}
	return &Door{cfg: cfg, tokens: t, ask: make(chan chan<- opened), fewer: wake.New(), codes: map[string]code{}}, nil
}

// SetAPI says what answers those who are let in; it is called before Run.
func (d *Door) SetAPI(h http.Handler) { d.api = h }

// certs is the certificate, nil if there is none; and why it cannot be listened like this.
func (l Listen) certs(log *slog.Logger) (*certs, error) {
	if l.Addr == "" {
		return nil, nil
	}
	host, port, err := net.SplitHostPort(l.Addr)
	if n, wrong := strconv.Atoi(port); err != nil || wrong != nil || n < 0 || n > 65535 {
		return nil, api.Errorf(api.Usage, "--api %q: expected HOST:PORT, as in 127.0.0.1:%d", l.Addr, WebPort)
	}
	if l.Cert == "" && l.Key == "" {
		if ip := net.ParseIP(host); host != "localhost" && (ip == nil || !ip.IsLoopback()) {
			return nil, api.Errorf(api.Refused, "--api %s can be reached from other machines, and tokens would be read on the way: add --api-cert FILE and --api-key FILE, or listen on 127.0.0.1 and come through `ssh -L`", l.Addr)
		}
		return nil, nil
	}
	c, err := openCerts(l.Cert, l.Key, log)
	if err != nil {
		return nil, api.Errorf(api.Usage, "--api-cert and --api-key: %v", err)
	}
	return c, nil
}

// Run has the door open where it is to be until ctx ends.
func (d *Door) Run(ctx context.Context) error {
	var wg sync.WaitGroup
	defer wg.Wait()
	fixed := ""
	if d.cfg.Listen.Addr != "" {
		certs, err := d.cfg.Listen.certs(d.cfg.Log)
		if err != nil {
			return err
		}
		l, err := net.Listen("tcp", d.cfg.Listen.Addr)
		if err != nil {
			return api.Errorf(api.Failed, "cannot listen for --api: %v", err)
		}
		stop := d.serve(ctx, &wg, l, certs)
		defer stop()
		if certs == nil { // on this machine
			fixed = urlOf(l, certs)
		}
	}
	return d.runWeb(ctx, &wg, fixed)
}

// runWeb opens the page's door when that is asked for, or a browser's token lives from before, and
// shuts it when none does any more. Where the door is open on this machine anyway (fixed), the page
// is there.
func (d *Door) runWeb(ctx context.Context, wg *sync.WaitGroup, fixed string) error {
	url, stop := fixed, func() {}
	defer func() { stop() }()
	open := func() error {
		if url != "" {
			return nil
		}
		l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(WebPort)))
		if err != nil { // another peer of this machine has it
			l, err = net.Listen("tcp", "127.0.0.1:0")
		}
		if err != nil {
			return api.Errorf(api.Failed, "cannot listen on 127.0.0.1: %v", err)
		}
		url, stop = urlOf(l, nil), d.serve(ctx, wg, l, nil)
		return nil
	}
	if d.wanted() {
		if err := open(); err != nil {
			d.cfg.Log.Warn("the page is not served", "err", err)
		}
	}
	for {
		var look <-chan time.Time
		if url != "" {
			look = time.After(codeLife)
		}
		select {
		case <-ctx.Done():
			return nil
		case to := <-d.ask:
			err := open()
			to <- opened{url, err}
		case <-look:
		case <-d.fewer:
		}
		if url != fixed && !d.wanted() {
			stop()
			url, stop = fixed, func() {}
		}
	}
}

// wanted tells whether a browser may come.
func (d *Door) wanted() bool {
	d.mu.Lock()
	d.forget()
	n := len(d.codes)
	d.mu.Unlock()
	return n > 0 || slices.ContainsFunc(d.tokens.list(), func(k kept) bool { return k.Web })
}

// forget drops codes that are over. The caller holds the lock.
func (d *Door) forget() {
	now := d.cfg.Now()
	for h, c := range d.codes {
		if !now.Before(c.expires) {
			delete(d.codes, h)
		}
	}
}

// serve serves a listener until ctx ends or stop is called, which waits.
func (d *Door) serve(ctx context.Context, wg *sync.WaitGroup, l net.Listener, certs *certs) (stop func()) {
	url := urlOf(l, certs)
	ctx, cancel := context.WithCancel(ctx)
	s := &http.Server{
		Handler: d.handler(l.Addr(), certs), ReadHeaderTimeout: 5 * time.Second, IdleTimeout: time.Minute, MaxHeaderBytes: 16 << 10,
		BaseContext: func(net.Listener) context.Context { return ctx }, ConnContext: withConn,
		ErrorLog: slog.NewLogLogger(d.cfg.Log.Handler(), slog.LevelDebug),
	}
	served := make(chan struct{})
	wg.Go(func() {
		defer close(served)
		var err error
		if few := newFew(l); certs != nil {
			s.TLSConfig = certs.config()
			err = s.ServeTLS(few, "", "")
		} else {
			err = s.Serve(few)
		}
		if !errors.Is(err, http.ErrServerClosed) {
			d.cfg.Log.Error("the API is no longer served over TCP", "addr", url, "err", err)
		}
	})
	after := context.AfterFunc(ctx, func() { s.Close() })
	d.note(url, true)
	return func() {
		d.note(url, false)
		last, done := context.WithTimeout(ctx, time.Second) // who is being told that its token ended hears it
		_ = s.Shutdown(last)
		done()
		after()
		cancel()
		s.Close()
		<-served
	}
}

func urlOf(l net.Listener, certs *certs) string {
	if certs != nil {
		return "https://" + l.Addr().String() + "/"
	}
	return "http://" + l.Addr().String() + "/"
}

func (d *Door) note(url string, open bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.open = slices.DeleteFunc(slices.Clone(d.open), func(u string) bool { return u == url })
	if open {
		d.open = append(d.open, url)
	}
}

// hosts are the names by which a listener may be asked.
func hosts(at net.Addr, certs *certs) (all []string) {
	host, port, _ := net.SplitHostPort(at.String())
	names := []string{host}
	if ip := net.ParseIP(host); ip != nil && ip.IsLoopback() {
		names = append(names, "127.0.0.1", "localhost", "::1")
	}
	if certs != nil {
		leaf := certs.now().Leaf
		names = append(names, leaf.DNSNames...)
		for _, ip := range leaf.IPAddresses {
			names = append(names, ip.String())
		}
	}
	for _, n := range names {
		if n = net.JoinHostPort(strings.ToLower(n), port); !slices.Contains(all, n) {
			all = append(all, n)
		}
		if certs != nil && port == "443" { // which browsers leave out
			all = append(all, strings.TrimSuffix(n, ":443"))
		}
	}
	return all
}

// AccessTokens implements api.DoorBackend.
func (d *Door) AccessTokens(context.Context) (api.AccessTokens, error) {
	a := api.AccessTokens{Tokens: []api.AccessToken{}, AsOf: d.cfg.Now().UTC()}
	if d.tokens.damaged != nil {
		return a, d.tokens.damaged
	}
	for _, k := range d.tokens.list() {
		a.Tokens = append(a.Tokens, k.shown())
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	a.Open = append([]string{}, d.open...)
	return a, nil
}

// CreateToken implements api.DoorBackend.
func (d *Door) CreateToken(_ context.Context, r api.TokenRequest) (api.AccessToken, error) {
	return d.tokens.create(r, false)
}

// RevokeToken implements api.DoorBackend.
func (d *Door) RevokeToken(_ context.Context, id string) error { return d.drop(id) }

func (d *Door) drop(id string) error {
	defer d.fewer.Set()
	return d.tokens.revoke(id)
}

// OpenWeb implements api.DoorBackend.
func (d *Door) OpenWeb(ctx context.Context, r api.TokenRequest) (api.WebLink, error) {
	if err := cmp.Or(check(r), d.tokens.damaged); err != nil {
		return api.WebLink{}, err
	}
	c := rand.Text()
	l := api.WebLink{Code: c, Expires: d.cfg.Now().Add(codeLife).UTC()}
	d.mu.Lock()
	d.forget()
	full := len(d.codes) >= maxCodes
	if !full {
		d.codes[hashOf(c)] = code{r, l.Expires}
	}
	d.mu.Unlock()
	if full {
		return l, api.Errorf(api.Conflict, "%d links wait to be opened; each is good for %s: try again then", maxCodes, codeLife)
	}
	to := make(chan opened, 1)
	select {
	case d.ask <- to:
	case <-ctx.Done():
		return l, ctx.Err()
	}
	o := <-to
	l.URL = o.url
	return l, o.err
}

// redeem makes a token of a code, which is good no more.
func (d *Door) redeem(c string) (api.AccessToken, error) {
	hash := hashOf(c)
	d.mu.Lock()
	d.forget()
	want, ok := d.codes[hash]
	delete(d.codes, hash)
	d.mu.Unlock()
	if !ok {
		return api.AccessToken{}, api.Errorf(api.Refused, "this link was used already, or is older than a minute; type `peer web` for another one")
	}
	return d.tokens.create(want.want, true)
}
