// Package load reads how busy this machine is – with whatever runs on it, tasks or not – and
// remembers an hour of it.
//
//	m := load.NewMeter()
//	go m.Run(ctx)                          // looks every ten seconds
//	m.Now()                                // goes to the coordinator with a beat
//	a := &load.Hours{Meter: m, …}
//	host.Handle(load.Protocol, a.Serve)
//	a.PeerLoad(ctx, peer)                    // an hour of any peer: it is asked
//
// What a system does not tell is left out and never 0: processors and memory are known on Linux and
// Windows, the load average on Linux and macOS.
package load
