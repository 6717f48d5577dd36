package config

import (
	"fmt"
	"io"
	"log/slog"
	"net/url"
	"reflect"
	"regexp"
	"strings"
	"time"
)

// DSN says where a database is, maybe with a password. However it is printed,
// logged or encoded, the password is masked; string(dsn) has it.
type DSN string

const hidden = "•••"

// passwordWord is a password in the form of words, as in host=db password=x.
var passwordWord = regexp.MustCompile(`(?i)(password\s*=\s*)('(?:[^'\\]|\\.)*'|\S+)`)

// String implements [fmt.Stringer].
func (d DSN) String() string {
	scheme, _, found := strings.Cut(string(d), "://")
	if !found {
		return passwordWord.ReplaceAllString(string(d), "${1}"+hidden)
	}
	u, err := url.Parse(string(d))
	if err != nil {
		return scheme + "://" + hidden // what cannot be read may hold one anywhere
	}
	userinfo := ""
	if u.User != nil {
		userinfo = url.User(u.User.Username()).String()
		if _, has := u.User.Password(); has {
			userinfo += ":" + hidden
		}
		userinfo += "@"
	}
	query := u.Query()
	for key := range query {
		if k := strings.ToLower(key); strings.Contains(k, "password") || k == "sslkey" {
			query.Set(key, hidden)
		}
	}
	out := scheme + "://" + userinfo + u.Host + u.Path
	if len(query) > 0 {
		text, err := url.QueryUnescape(query.Encode())
		if err != nil {
			text = hidden
		}
		out += "?" + text
	}
	return out
}

// Format implements [fmt.Formatter], for verbs that look past String.
func (d DSN) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, d.String()) }

// LogValue implements [slog.LogValuer].
func (d DSN) LogValue() slog.Value { return slog.StringValue(d.String()) }

// MarshalText implements [encoding.TextMarshaler], by which also JSON is made.
func (d DSN) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// LogValue gives the configuration by its keys. Secrets are references in it, or
// of types that mask themselves.
func (c Config) LogValue() slog.Value { return logged(reflect.ValueOf(c)) }

func logged(v reflect.Value) slog.Value {
	var attrs []slog.Attr
	for i := range v.NumField() {
		key, field := v.Type().Field(i).Tag.Get("koanf"), v.Field(i)
		switch {
		case field.IsZero(), field.Kind() == reflect.Slice && field.Len() == 0:
		case field.Type() == reflect.TypeFor[time.Duration]():
			attrs = append(attrs, slog.String(key, fmt.Sprint(field.Interface())))
		case field.Kind() == reflect.Struct:
			attrs = append(attrs, slog.Attr{Key: key, Value: logged(field)})
		default:
			attrs = append(attrs, slog.Any(key, field.Interface()))
		}
	}
	return slog.GroupValue(attrs...)
}
