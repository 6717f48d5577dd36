package main

import (
	"context"

	"github.com/spf13/pflag"
)

// paging is how much of a list is wanted.
type paging struct {
	all         bool
	size, limit int32
}

func (p *paging) addFlags(flags *pflag.FlagSet) {
	flags.BoolVar(&p.all, "all", false, "everything, however much it is")
	flags.Int32Var(&p.limit, "limit", 100, "at most `N`")
	flags.Int32Var(&p.size, "page-size", 0, "`N` in each request, 200 at most (default the API's)")
}

func (p *paging) check() error {
	switch {
	case p.limit < 1:
		return usagef("--limit %d is less than 1", p.limit)
	case p.size < 0 || p.size > 200:
		return usagef("--page-size %d: 0 to 200", p.size)
	}
	return nil
}

// page is one page of a list. total is 0 when the API does not count.
type page[M any] struct {
	items []M
	next  string
	total int32
}

// collect reads pages until there are enough. It says so when there are more.
func collect[M any](ctx context.Context, c *cli, p *paging, read func(ctx context.Context, size int32, token string) (page[M], error)) ([]M, error) {
	if err := p.check(); err != nil {
		return nil, err
	}
	var all []M
	token := ""
	for {
		size := p.size
		if left := p.limit - int32(len(all)); !p.all && (size == 0 && left < 200 || size > left) {
			size = left
		}
		got, err := read(ctx, size, token)
		if err != nil {
			return nil, err
		}
		all = append(all, got.items...)
		full := !p.all && len(all) >= int(p.limit)
		if full && (got.next != "" || len(all) > int(p.limit)) {
			all = all[:p.limit]
			if got.total > 0 {
				c.notef("the first %d of %d; --all shows the rest", len(all), got.total)
			} else {
				c.notef("the first %d; --all shows the rest", len(all))
			}
		}
		if full || got.next == "" {
			return all, nil
		}
		token = got.next
	}
}
