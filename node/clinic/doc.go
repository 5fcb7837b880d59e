// Package clinic finds out how peers are, for package doctor to judge: this peer by looking,
// another one by asking it, and a folder that no peer runs with by reading it.
//
//	c := clinic.New(clinic.Config{…})
//	host.Handle(clinic.Protocol, c.Serve)
//	c.Examine(ctx, "nas")                  // this peer, or nas by asking it
//	clinic.Stopped(dir)                    // what can be told without the peer
//
// All probes run at once, but for that of the NAT, which follows that of TCP; each for two seconds
// at most or, if they dial, four. What does not come back is said to be not tried. A stuck disk
// holds one goroutine, however often it is looked at. Of those who ask, two are served at once;
// looks younger than ten seconds are not repeated for them.
package clinic
