package registry

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// Limits of names and texts, in bytes.
const (
	MaxNameLength        = 63
	MaxToolIDLength      = 512
	MaxDescriptionLength = 4096
	MaxReasonLength      = 2048
	MaxLabels            = 64
	MaxLabelKeyLength    = 63
	MaxLabelValueLength  = 256
	MaxIdempotencyKey    = 255
)

var (
	namePattern   = regexp.MustCompile(`^[a-z0-9]([a-z0-9_-]{0,61}[a-z0-9])?$`)
	tenantPattern = regexp.MustCompile(`^[a-z0-9][a-z0-9-]{0,62}$`)
	// hashSuffix is what ToolID itself appends, so an external id that ends so
	// gets one too; otherwise a hostile server could choose another tool's id.
	hashSuffix = regexp.MustCompile(`-[0-9a-f]{8}$`)
	notPlain   = regexp.MustCompile(`[^A-Za-z0-9._-]`)
	notName    = regexp.MustCompile(`[^a-z0-9_-]`)
)

// ValidName says whether a server or provider may have this name: ASCII lower
// case letters, digits, "_" and "-" inside, at most 63 bytes. No dots: they
// separate provider and tool in a tool id.
func ValidName(name string) bool { return namePattern.MatchString(name) }

// ValidTenant says whether this can be a tenant (design.md §4).
func ValidTenant(tenant string) bool { return tenantPattern.MatchString(tenant) }

// ToolID makes the canonical id of a tool (R60, Appendix B). It never changes
// afterwards; rows are keyed by server and external id, never by this text.
func ToolID(provider, externalID string) string {
	plain := notPlain.ReplaceAllString(externalID, "-")
	if plain == "" {
		plain = "tool"
	}
	if plain != externalID || hashSuffix.MatchString(externalID) {
		sum := sha256.Sum256([]byte(externalID))
		plain += "-" + hex.EncodeToString(sum[:4])
	}
	return provider + "." + plain
}

// ProviderServerName makes the name of a server that an extension declares. Where
// the id cannot stand in a name as it is, part of its hash makes the name its own.
func ProviderServerName(provider, externalID string) string {
	plain := strings.Trim(notName.ReplaceAllString(strings.ToLower(externalID), "-"), "-_")
	name := provider + "-" + plain
	if plain == externalID && ValidName(name) {
		return name
	}
	sum := sha256.Sum256([]byte(externalID))
	suffix := "-" + hex.EncodeToString(sum[:4])
	room := MaxNameLength - len(suffix)
	return strings.TrimRight(name[:min(len(name), room)], "-_") + suffix
}

func formatEtag(version int64) string { return `"` + strconv.FormatInt(version, 10) + `"` }

// CheckEtag compares a caller's etag with a version; an empty etag asks for
// nothing.
func CheckEtag(etag string, version int64) error {
	if etag == "" || etag == formatEtag(version) || strings.Trim(etag, `"`) == strconv.FormatInt(version, 10) {
		return nil
	}
	return Errorf(ReasonStaleEtag, "the server is at etag %s, not %s", formatEtag(version), etag).
		With("etag", formatEtag(version)).
		WithNext("read the server again and repeat the change on what it is now")
}

// ConnectionRef names an immutable version of a connection.
func ConnectionRef(name string, version int) string { return fmt.Sprintf("%s@%d", name, version) }

var labelPattern = regexp.MustCompile(`^[A-Za-z0-9]([A-Za-z0-9._/-]{0,61}[A-Za-z0-9])?$`)

// ServerIDPrefix begins every server id; a UUIDv7 without dashes follows.
const ServerIDPrefix = "srv_"

var serverIDPattern = regexp.MustCompile(`^srv_[0-9a-f]{32}$`)

// ValidServerID says whether this has the form of a server id.
func ValidServerID(id string) bool { return serverIDPattern.MatchString(id) }

// ServerID makes a server id of a UUID in its usual text form.
func ServerID(uuid string) string { return ServerIDPrefix + strings.ReplaceAll(uuid, "-", "") }

func trimID(serverID string) string { return strings.TrimPrefix(serverID, ServerIDPrefix) }
