package registry

import "time"

// Limits bound what a stranger may make us do (R30, R31, R45).
type Limits struct {
	Connect    time.Duration `json:"connect"`    // handshake, whole
	Lists      time.Duration `json:"lists"`      // all pages of all lists together
	Pages      int           `json:"pages"`      // per list
	Items      int           `json:"items"`      // per list
	ItemBytes  int           `json:"itemBytes"`  // one tool; larger is quarantined
	PageBytes  int64         `json:"pageBytes"`  // one response, decompressed
	TotalBytes int64         `json:"totalBytes"` // all responses of one discovery
	Depth      int           `json:"depth"`      // nesting of one item
}

// DefaultLimits are the documented defaults.
func DefaultLimits() Limits {
	return Limits{
		Connect: 10 * time.Second, Lists: 30 * time.Second, Pages: 256, Items: 10_000,
		ItemBytes: 256 << 10, PageBytes: 8 << 20, TotalBytes: 32 << 20, Depth: 64,
	}
}
