package policy

import (
	"container/list"
	"sync"

	"countersign/registry"
)

// Cache keeps compiled policies by the digest of their bundles: compiling takes milliseconds, evaluating microseconds.
// Since a digest never means another bundle, nothing in it grows old. It is safe for concurrent use.
type Cache struct {
	size int

	mu     sync.Mutex
	known  map[string]*list.Element
	recent *list.List // of *Policy, the one that was used last in front
}

// NewCache makes a cache for so many policies; the one that was not used for longest makes room.
func NewCache(size int) *Cache {
	return &Cache{size: max(size, 1), known: map[string]*list.Element{}, recent: list.New()}
}

// Get gives the policy with a digest. When it is not known, read gives its document, such as from the database. An
// error of read is returned as it is. A document that cannot be compiled, or that has another digest, is the error
// policy_error: somebody changed what was published.
func (c *Cache) Get(digest string, read func() ([]byte, error)) (*Policy, error) {
	if p := c.find(digest); p != nil {
		return p, nil
	}
	document, err := read()
	if err != nil {
		return nil, err
	}
	p, err := Load(document)
	if err != nil {
		return nil, registry.Errorf(registry.ReasonPolicyError, "the stored policy bundle cannot be used: %w", err)
	}
	if p.Digest() != digest {
		return nil, registry.Errorf(registry.ReasonPolicyError, "the stored policy bundle is not the one that was published").
			With("published", digest).With("stored", p.Digest())
	}
	c.keep(p)
	return p, nil
}

func (c *Cache) find(digest string) *Policy {
	if digest == Default().Digest() {
		return Default()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	element, found := c.known[digest]
	if !found {
		return nil
	}
	c.recent.MoveToFront(element)
	return policyOf(element)
}

func (c *Cache) keep(p *Policy) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, found := c.known[p.Digest()]; found {
		return // somebody else compiled it meanwhile
	}
	c.known[p.Digest()] = c.recent.PushFront(p)
	for c.recent.Len() > c.size {
		oldest := c.recent.Back()
		delete(c.known, policyOf(oldest).Digest())
		c.recent.Remove(oldest)
	}
}

func policyOf(element *list.Element) *Policy {
	p, _ := element.Value.(*Policy) // nothing else is put into the list
	return p
}
