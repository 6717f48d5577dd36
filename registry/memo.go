package registry

import (
	"crypto/sha256"
	"encoding/binary"
	"slices"
	"sync"
	"time"
)

// maxRemembered bounds how many lists a [Memo] remembers; one takes some 300
// bytes.
const maxRemembered = 50_000

// Memo remembers what lists came to, by their bytes: a list that a server sends
// again byte for byte is hashed and not decoded. It lives as long as the process
// at most, so that rules of another version never answer. The zero value is
// ready; it may be used by several at once.
type Memo struct {
	mu         sync.Mutex
	young, old map[[sha256.Size]byte]string
}

// ToolsDigest is [ToolsDigest] for lists that may have been seen before.
func (m *Memo) ToolsDigest(tools [][]byte, limits Limits) (string, error) {
	key := keyOf(limits, "", tools)
	if digest, ok := m.get(key); ok {
		return digest, nil
	}
	digest, err := ToolsDigest(tools, limits)
	if err == nil {
		m.put(key, digest)
	}
	return digest, err
}

// Snapshot is [NewSnapshot] for surfaces that may have been seen before. When
// the same bytes came before to the snapshot with the digest that the caller
// holds already, decoded is false and the snapshot comes without its items.
func (m *Memo) Snapshot(surface Surface, limits Limits, now time.Time, held string) (snap Snapshot, decoded bool, err error) {
	lists := [][]byte{[]byte(surface.Instructions)}
	for _, kind := range surface.Kinds {
		lists = append(lists, []byte(kind))
	}
	purpose := "surface"
	if slices.Contains(surface.Quirks, QuirkAuthNotEnforced) {
		purpose = "surface of an open server" // it has another digest
	}
	key := keyOf(limits, purpose, lists, surface.Prompts, surface.Resources, surface.Templates, surface.Tools)
	if digest, ok := m.get(key); ok && digest == held {
		snap = surface.Header(now)
		snap.Digest = digest
		return snap, false, nil
	}
	if snap, err = NewSnapshot(surface, limits, now); err == nil {
		m.put(key, snap.Digest)
	}
	return snap, true, err
}

// keyOf is the digest of lists in the order in which they were sent, each
// element with its length before it, and of what bounds their items.
func keyOf(limits Limits, purpose string, lists ...[][]byte) (key [sha256.Size]byte) {
	h := sha256.New()
	number := func(n int) {
		var b [8]byte
		binary.BigEndian.PutUint64(b[:], uint64(n))
		h.Write(b[:])
	}
	number(limits.ItemBytes)
	number(limits.Depth)
	number(len(purpose))
	h.Write([]byte(purpose))
	for _, list := range lists {
		number(len(list))
		for _, raw := range list {
			number(len(raw))
			h.Write(raw)
		}
	}
	h.Sum(key[:0])
	return key
}

func (m *Memo) get(key [sha256.Size]byte) (string, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	digest, ok := m.young[key]
	if !ok {
		if digest, ok = m.old[key]; ok {
			m.young[key] = digest
		}
	}
	return digest, ok
}

// put remembers in two generations: what neither was used for a while goes with
// the older one.
func (m *Memo) put(key [sha256.Size]byte, digest string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.young == nil || len(m.young) >= maxRemembered/2 {
		m.young, m.old = map[[sha256.Size]byte]string{}, m.young
	}
	m.young[key] = digest
}

// Len is how many lists are remembered.
func (m *Memo) Len() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.young) + len(m.old)
}
