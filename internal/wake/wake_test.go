package wake_test

import (
	"testing"

	"github.com/coveyproject/covey/internal/wake"
)

func TestASignalIsSetOnceHoweverOftenAndNobodyWaitsToSetIt(t *testing.T) {
	s := wake.New()
	for range 3 {
		s.Set()
	}
	<-s
	select {
	case <-s:
		t.Fatal("it is set twice")
	default:
	}
	s.Set()
	<-s
	wake.Signal(nil).Set()
}
