package backend

// Remembered is for how many sets of operands a program keeps what it made for them. Making a bind group
// takes 3 us, a graph 15 us.
const Remembered = 64

// Cache keeps what was made for the operands of a run, such as bind groups and graphs, for the next run on
// the same operands. It keeps the values of the Remembered most recent keys. Each value knows the number of
// the submission that used it last. A value that may still be recorded or in flight is never dropped to make
// room. Numbers never decrease. A Cache is not safe for concurrent use.
type Cache[K comparable, V any] struct {
	limit   int
	free    func(V)
	entries map[K]*entry[K, V]
	ends    entry[K, V] // of a ring: newer is the least recently used, older the most recently used
}

type entry[K comparable, V any] struct {
	key          K
	value        V
	used         uint64 // number of the last submission
	newer, older *entry[K, V]
}

// NewCache returns a cache that drops values with free.
func NewCache[K comparable, V any](free func(V)) *Cache[K, V] {
	c := &Cache[K, V]{limit: Remembered, free: free, entries: map[K]*entry[K, V]{}}
	c.ends.newer, c.ends.older = &c.ends, &c.ends
	return c
}

// Len returns the number of values.
func (c *Cache[K, V]) Len() int { return len(c.entries) }

// Get returns the value of a key for use by a submission, or nil if there is none.
// It allocates nothing.
func (c *Cache[K, V]) Get(key K, submission uint64) *V {
	e := c.entries[key]
	if e == nil {
		return nil
	}
	e.unlink()
	c.link(e, submission)
	return &e.value
}

// Put adds the value of a new key, used by a submission. Call Room before, otherwise the cache grows beyond
// its limit.
func (c *Cache[K, V]) Put(key K, value V, submission uint64) *V {
	e := &entry[K, V]{key: key, value: value}
	c.entries[key] = e
	c.link(e, submission)
	return &e.value
}

// Room reports whether there is room for one more value. It makes room by dropping the least recently used
// values, except those that a submission after done has used.
func (c *Cache[K, V]) Room(done uint64) bool { return c.shrink(c.limit-1, done) }

// Trim shrinks the cache to its limit, with the rules of Room.
func (c *Cache[K, V]) Trim(done uint64) { c.shrink(c.limit, done) }

func (c *Cache[K, V]) shrink(most int, done uint64) bool {
	for len(c.entries) > most {
		e := c.ends.newer
		if e.used > done {
			return false
		}
		c.drop(e)
	}
	return true
}

// Drop drops the values of matching keys, even if they are in use.
func (c *Cache[K, V]) Drop(match func(K) bool) {
	for key, e := range c.entries {
		if match(key) {
			c.drop(e)
		}
	}
}

// Clear drops all values, even if they are in use.
func (c *Cache[K, V]) Clear() { c.Drop(func(K) bool { return true }) }

func (c *Cache[K, V]) drop(e *entry[K, V]) {
	delete(c.entries, e.key)
	e.unlink()
	c.free(e.value)
}

func (e *entry[K, V]) unlink() { e.older.newer, e.newer.older = e.newer, e.older }

// link makes an entry the most recently used.
func (c *Cache[K, V]) link(e *entry[K, V], submission uint64) {
	e.used = submission
	e.older, e.newer = c.ends.older, &c.ends
	e.older.newer, e.newer.older = e, e
}
