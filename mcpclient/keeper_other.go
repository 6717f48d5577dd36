//go:build !linux

package mcpclient

import "context"

// Keeper does not exist here, as processes do not.
type Keeper struct{}

// OpenKeeper gives none.
func OpenKeeper(context.Context, KeeperOptions) (*Keeper, error) { return nil, nil }

// Close does nothing.
func (*Keeper) Close() {}

// Bounds says nothing.
func (*Keeper) Bounds() (held bool, how string) { return false, "" }

func (*Keeper) how() string { return "" }
