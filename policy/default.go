package policy

import (
	_ "embed"
	"sync"
)

//go:embed default.yaml
var defaultDocument []byte

// Default gives the built-in bundle registry.PolicyDefault, which every tenant has and nobody can change.
var Default = sync.OnceValue(func() *Policy {
	p, err := Load(defaultDocument)
	if err != nil {
		panic("policy: the built-in bundle: " + err.Error()) // a test loads it
	}
	return p
})

// DefaultDocument gives the built-in bundle as it is written, to be read by people and to begin one's own with.
func DefaultDocument() []byte { return append([]byte(nil), defaultDocument...) }
