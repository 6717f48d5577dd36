// Package console is the web console: the built pages of the folder dist, which
// every program that serves the API contains, and the handler that serves them. The
// pages are clients of the public API and of nothing else.
package console

import (
	"embed"
	"io/fs"
)

//go:embed all:dist
var dist embed.FS

// Pages are the built pages, as `make console` left them in dist.
func Pages() fs.FS {
	pages, err := fs.Sub(dist, "dist")
	if err != nil {
		panic(err) // the name is valid
	}
	return pages
}
