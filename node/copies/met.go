package copies

import (
	"encoding/json"
	"maps"
	"os"
	"sync"

	"github.com/coveyproject/covey/internal/atomicfile"
	"github.com/coveyproject/covey/p2p/starts"
	"github.com/coveyproject/covey/taskstate"
)

// FileName is the file in which a peer remembers which start of every other one it met last, as
// that one signed it: so that a folder that was turned back is noticed also where everybody was
// down at once.
const FileName = "met"

// maxMet bounds what is read of it.
const maxMet = 4 << 20

// met is that file. The zero value keeps nothing.
type met struct {
	path string
	mu   sync.Mutex
}

// load reads what was kept: nothing if it cannot be read, as in a folder that never met anybody.
func (m *met) load() (all map[taskstate.PeerID]pastProof) {
	info, err := os.Stat(m.path)
	if err != nil || info.Size() > maxMet {
		return nil
	}
	b, err := os.ReadFile(m.path)
	if err != nil {
		return nil
	}
	return decodeMet(b)
}

// decodeMet reads the file's content: nothing if it is damaged.
func decodeMet(file []byte) (all map[taskstate.PeerID]pastProof) {
	line, err := atomicfile.Summed(file)
	if err != nil || json.Unmarshal(line, &all) != nil {
		return nil
	}
	maps.DeleteFunc(all, func(_ taskstate.PeerID, p pastProof) bool { return !p.Proof.Sane() })
	return all
}

// save keeps what list returns then: of two who save at once the later one has all.
func (m *met) save(list func() map[taskstate.PeerID]pastProof) error {
	if m.path == "" {
		return nil
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	b, err := json.Marshal(list())
	if err != nil {
		return err
	}
	return atomicfile.Write(m.path, atomicfile.WithSum(b))
}

// pastProof is an answer that a peer gave before, to the peer that shows it.
type pastProof struct {
	Nonce uint64       `cbor:"1,keyasint"`
	Proof starts.Proof `cbor:"2,keyasint"`
}
