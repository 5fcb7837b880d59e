package api

import (
	"net/http"
	"time"
)

// Story answers GET /v1/story?since=TIME&limit=N: what happened that is not about single tasks, as
// the peer that is asked saw it, the oldest first. It goes back a month, over restarts of the peer.
type Story struct {
	Story []StoryEvent `json:"story"`
	AsOf  time.Time    `json:"as_of"`
}

// StoryEvent is one thing that happened: an election, a peer that came, died or returned, tasks
// that were given up, an update.
type StoryEvent struct {
	Time     time.Time `json:"time"`
	Kind     string    `json:"kind"` // coordinator peer job task
	State    string    `json:"state"`
	Peer     string    `json:"peer,omitempty"`
	PeerName string    `json:"peer_name,omitempty"`
	Job      string    `json:"job,omitempty"`
	Text     string    `json:"text"` // the whole line for a person, but for the time
}

const usualStory, maxStory = 200, 4096

func story() Call {
	return custom[Story](func(b Backend, w http.ResponseWriter, r *http.Request) {
		v := r.URL.Query()
		since, err := moment(v, "since")
		if err != nil {
			fail(w, err)
			return
		}
		n, err := number(v, "limit", usualStory, maxStory)
		if err != nil {
			fail(w, err)
			return
		}
		s, err := b.Story(r.Context(), since, n)
		answer(w, s, err)
	}, Backend.Story)
}
