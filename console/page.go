package console

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"mime"
	"net/http"
	"path"
	"strings"
)

// assets begins the names of files that have a hash of their content in it, so
// that what is behind one name never changes.
const assets = "assets/"

// page is one file, ready to be sent.
type page struct {
	name, kind, tag string
	body, packed    []byte // packed is gzip; nil: not worth it
}

// packable is from how many bytes on compression pays.
const packable = 1024

func newPage(name string, body []byte) page {
	p := page{name: name, body: body, kind: kindOf(name, body)}
	sum := sha256.Sum256(body)
	p.tag = hex.EncodeToString(sum[:12])
	if len(body) < packable {
		return p
	}
	var packed bytes.Buffer
	w, _ := gzip.NewWriterLevel(&packed, gzip.BestCompression) // the level is one
	_, _ = w.Write(body)                                       // to memory
	_ = w.Close()
	if packed.Len() < len(body)*9/10 {
		p.packed = packed.Bytes()
	}
	return p
}

// kinds are the types of files, whatever the machine's own table says.
var kinds = map[string]string{
	".html": "text/html; charset=utf-8", ".js": "text/javascript; charset=utf-8", ".css": "text/css; charset=utf-8",
	".json": "application/json", ".svg": "image/svg+xml", ".png": "image/png", ".ico": "image/x-icon", ".woff2": "font/woff2",
	".txt": "text/plain; charset=utf-8", ".webmanifest": "application/manifest+json",
}

func kindOf(name string, body []byte) string {
	if kind := kinds[path.Ext(name)]; kind != "" {
		return kind
	}
	if kind := mime.TypeByExtension(path.Ext(name)); kind != "" {
		return kind
	}
	return http.DetectContentType(body)
}

func (p page) serve(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Content-Type", p.kind)
	h.Set("Cache-Control", "no-cache")
	if strings.HasPrefix(p.name, assets) {
		h.Set("Cache-Control", "public, max-age=31536000, immutable")
	}
	body, tag := p.body, p.tag
	if p.packed != nil {
		h.Set("Vary", "Accept-Encoding")
		if strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") {
			h.Set("Content-Encoding", "gzip")
			body, tag = p.packed, p.tag+"-gzip"
		}
	}
	h.Set("ETag", `"`+tag+`"`)
	http.ServeContent(w, r, p.name, unchanged, bytes.NewReader(body))
}
