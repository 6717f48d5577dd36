package registry

import "time"

// Vitals are the counts of an installation that are read from its tables, so
// that they are right after every restart (R201).
type Vitals struct {
	Servers []ServerCount
	Unbound map[string]int64 // tools of servers that are not retired and are not bound, by tenant
	// Reviews are the approvals that somebody is asked for; OldestReview is when the
	// first of them was asked for, zero when there is none.
	Reviews      int64
	OldestReview time.Time
	LastWindow   time.Time // of probes that were recorded; zero: none ever
	Events       EventBacklog
	Unsealed     int64         // audit rows that are in no chain yet
	SealLag      time.Duration // since the oldest of them was written
	At           time.Time     // by the database's clock
}

// ServerCount is how many servers of a tenant are alike.
type ServerCount struct {
	Tenant         string         `bun:"tenant_id"`
	Direction      Direction      `bun:"direction"`
	State          State          `bun:"state"`
	Authentication Authentication `bun:"authentication"`
	Servers        int64          `bun:"servers"`
}
