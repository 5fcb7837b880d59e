package admission

import (
	"fmt"
	"reflect"
	"testing"

	"github.com/coveyproject/covey/internal/golden"
)

func TestWhatIsSignedIsAsEveryVersionHasIt(t *testing.T) {
	secret := []byte("sixteen bytes ..")
	golden.Freeze(t, "ticket key 1", fmt.Sprintf("%x", TicketKey(secret)))
	golden.Freeze(t, "proof of joining 1", fmt.Sprintf("%x", Prove(secret, "peer")))
	var e Entry
	golden.Fill(reflect.ValueOf(&e).Elem(), 1, nil)
	var s Seats
	golden.Fill(reflect.ValueOf(&s).Elem(), 1, nil)
	for name, bytes := range map[string]func() ([]byte, error){"signed roster entry 1": e.signedBytes, "signed seats 1": s.signedBytes} {
		data, err := bytes()
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		golden.Freeze(t, name, fmt.Sprintf("%x", data))
	}
}
