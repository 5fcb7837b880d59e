package api

import "time"

// Links answers GET /v1/links: which peers are connected to which, each as the one at its From end
// sees it.
type Links struct {
	Links  []Link    `json:"links"`
	Silent []string  `json:"silent"` // names of peers that are here and did not answer in half a second
	AsOf   time.Time `json:"as_of"`
}

// Link is a connection between two peers.
type Link struct {
	From     string  `json:"from"`
	FromName string  `json:"from_name"`
	To       string  `json:"to"`
	ToName   string  `json:"to_name"`
	Path     string  `json:"path"` // direct relayed
	RTT      float64 `json:"rtt"`  // seconds, 0 if unknown
}
