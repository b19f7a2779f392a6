package certstore

import (
	"sync"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"

	"carafe/shared/driver"
	"carafe/shared/pki"
)

// cache keeps opened keys in memory, and only there (PB-66). A key's place names
// its epoch, so a rotation never meets an old key; the time limit bounds how long
// a key is held that nobody asks for.
type cache struct {
	entries *lru.Cache[place, *entry]
	keep    time.Duration
	now     func() time.Time
}

type entry struct {
	pair      driver.KeyPair
	until     time.Time
	authority func() (*pki.Authority, error) // parsed once, if somebody asks
}

func newCache(size int, keep time.Duration, now func() time.Time) *cache {
	entries, err := lru.New[place, *entry](size)
	if err != nil {
		panic(err) // the size is not positive, which New has refused
	}
	return &cache{entries: entries, keep: keep, now: now}
}

func (c *cache) get(p place) (*entry, bool) {
	e, ok := c.entries.Get(p)
	if ok && c.now().After(e.until) {
		c.entries.Remove(p)
		return nil, false
	}
	return e, ok
}

func (c *cache) put(p place, pair driver.KeyPair) *entry {
	e := &entry{
		pair: pair, until: c.now().Add(c.keep),
		authority: sync.OnceValues(func() (*pki.Authority, error) { return pki.LoadAuthority(pair) }),
	}
	c.entries.Add(p, e)
	return e
}

func (c *cache) remove(p place) { c.entries.Remove(p) }
