package api

import (
	"crypto/sha256"
	"encoding/base64"
	"strconv"
	"strings"

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
	return base64.RawURLEncoding.EncodeToString([]byte(l.seal(after) + after))
}

// after gives the key in a token, which must be of this list.
func (l list) after(token string) (string, error) {
	if token == "" {
		return "", nil
	}
	raw, err := base64.RawURLEncoding.Strict().DecodeString(token)
	if err == nil && len(raw) > sealed {
		if after := string(raw[sealed:]); strings.HasPrefix(string(raw), l.seal(after)) {
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
