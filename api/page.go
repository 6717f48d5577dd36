package api

import (
	"bytes"
	"compress/flate"
	"crypto/sha256"
	"encoding/base64"
	"io"
	"strconv"

	"countersign/db"
	"countersign/registry"
)

// Sizes of pages.
const (
	defaultPage = 50
	maxPage     = 200
)

// list identifies a list that is paged through: a page token is good for the
// same list only.
type list struct {
	tenant, method, filter, order string
	retired                       bool
}

// sealed is the number of bytes before a token's key that tie it to its list
// and to itself. They keep callers from mixing lists up. Nothing depends on
// them being secret: the tenant is in every query.
const sealed = 12

func (l list) seal(after string) string {
	h := sha256.New()
	for _, part := range []string{"page token 1", l.tenant, l.method, l.filter, l.order, strconv.FormatBool(l.retired), after} {
		h.Write([]byte(strconv.Itoa(len(part)) + ":" + part))
	}
	return string(h.Sum(nil)[:sealed])
}

// token makes the opaque token of the page after a key; "" stays "".
func (l list) token(after string) string {
	if after == "" {
		return ""
	}
	return base64.RawURLEncoding.EncodeToString(append([]byte(l.seal(after)), squeeze(after)...))
}

// squeeze makes a key short. The names that servers give their tools are part
// of keys, and some are long and full of characters that keys escape.
func squeeze(after string) []byte {
	var out bytes.Buffer
	w, err := flate.NewWriter(&out, flate.BestCompression)
	if err == nil {
		_, err = w.Write([]byte(after))
	}
	if err == nil {
		err = w.Close()
	}
	if err != nil { // a buffer takes all
		return nil
	}
	return out.Bytes()
}

// maxKey bounds a key, in bytes: some more than the longest there is.
const maxKey = 16 << 10

func unsqueeze(raw []byte) (string, error) {
	after, err := io.ReadAll(io.LimitReader(flate.NewReader(bytes.NewReader(raw)), maxKey))
	return string(after), err
}

// after gives the key in a token, which must be of this list.
func (l list) after(token string) (string, error) {
	if token == "" {
		return "", nil
	}
	raw, err := base64.RawURLEncoding.Strict().DecodeString(token)
	if err == nil && len(raw) > sealed {
		after, err := unsqueeze(raw[sealed:])
		if err == nil && after != "" && l.seal(after) == string(raw[:sealed]) {
			return after, nil
		}
	}
	return "", registry.Errorf(registry.ReasonInvalidPageToken, "the page token does not belong to this list").
		WithField("page_token", "must be the next_page_token of the page before, with the same filter, order and tenant").
		WithNext("begin again without a page token")
}

// page is what a request asks of the list.
func (l list) page(size int32, token string) (db.Page, error) {
	after, err := l.after(token)
	return db.Page{Size: pageSize(size), After: after}, err
}

func pageSize(asked int32) int {
	if asked <= 0 {
		return defaultPage
	}
	return int(min(asked, maxPage))
}
