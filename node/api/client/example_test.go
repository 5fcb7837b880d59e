package client_test

import (
	"context"
	"fmt"
	"log"
	"os"

	"github.com/coveyproject/covey/node/api"
	"github.com/coveyproject/covey/node/api/client"
	"github.com/coveyproject/covey/taskstate"
	"github.com/coveyproject/covey/taskstate/jobfile"
)

// A job is handed in, followed to its end, and what its tasks printed is read.
func Example() {
	ctx := context.Background()
	peer := client.Of(data) // the data folder of a peer on this machine, as in /home/ann/.local/state/covey
	defer peer.Close()

	job := taskstate.Job{Name: "hello", Count: 3}
	job.Run.Process = &taskstate.Process{Command: []string{"sh", "-c", "echo hello $COVEY_SLOT"}}
	jobfile.Defaults(&job)
	submitted, err := peer.Submit(ctx, api.Submit{Job: job})
	if err != nil {
		log.Fatal(err) // what happened, why, and what to type
	}

	err = peer.Follow(ctx, submitted.ID, false, func(p api.Progress) error {
		fmt.Println(p.Job.State, p.Job.Tasks["complete"], "of", p.Job.Count)
		return nil
	})
	if err != nil {
		log.Fatal(err)
	}

	err = peer.Logs(ctx, submitted.ID, api.LogQuery{Stream: "stdout"}, func(c api.LogChunk) error {
		_, err := os.Stdout.Write(c.Data)
		return err
	})
	if err != nil {
		log.Fatal(err)
	}
	// Output:
	// running 1 of 3
	// complete 3 of 3
	// hello 1
	// hello 2
	// hello 3
}

// An error has a code that programs can rely on, and a message for people.
func Example_errors() {
	peer := client.Of("/there/is/no/peer")
	_, err := peer.Status(context.Background())
	e := api.AsError(err)
	fmt.Println(e.Code, e.Exit())
	fmt.Println(e)
	// Output:
	// no_coordinator 4
	// no peer answers at /there/is/no/peer/peer.sock; start one with `peer up`
}
