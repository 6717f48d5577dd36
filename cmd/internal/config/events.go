package config

import (
	"fmt"
	"net/url"
	"regexp"
	"strings"

	"countersign/registry"
)

// Events say where the installation sends the events of all tenants, besides the
// webhooks that tenants subscribe.
type Events struct {
	Source string `koanf:"source"` // of the CloudEvents, a URI reference
	Log    bool   `koanf:"log"`    // each event is a line of the log
	NATS   NATS   `koanf:"nats"`
	Kafka  Kafka  `koanf:"kafka"`

	NATSInbound NATSInbound `koanf:"nats_inbound"`
}

// NATS is a stream of NATS JetStream.
type NATS struct {
	URL    string `koanf:"url"`    // empty: none
	Prefix string `koanf:"prefix"` // of the subjects
	Token  string `koanf:"token"`  // a reference
	CAFile string `koanf:"ca_file"`
}

// NATSInbound is a stream of NATS JetStream by which others tell tenants.
type NATSInbound struct {
	URL      string `koanf:"url"`      // empty: none
	Stream   string `koanf:"stream"`   // its name
	Prefix   string `koanf:"prefix"`   // of the subjects
	Consumer string `koanf:"consumer"` // durable
	Token    string `koanf:"token"`    // a reference
	CAFile   string `koanf:"ca_file"`
}

// Kafka is a topic of Kafka.
type Kafka struct {
	Brokers  []string `koanf:"brokers"` // none: there is none
	Topic    string   `koanf:"topic"`
	TLS      bool     `koanf:"tls"`
	CAFile   string   `koanf:"ca_file"`
	User     string   `koanf:"user"`
	Password string   `koanf:"password"` // a reference
}

var natsPrefix = regexp.MustCompile(`^[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*$`)

var natsName = regexp.MustCompile(`^[A-Za-z0-9_-]{1,200}$`)

func (e Events) validate() error {
	if u, err := url.Parse(e.Source); err != nil || e.Source == "" || u.User != nil {
		return fmt.Errorf("events.source must be a URI reference without credentials")
	}
	for key, list := range map[string]string{"events.nats.url": e.NATS.URL, "events.nats_inbound.url": e.NATSInbound.URL} {
		for at := range strings.SplitSeq(list, ",") {
			u, err := url.Parse(strings.TrimSpace(at))
			if list != "" && (err != nil || u.Host == "" || u.User != nil || u.Scheme != "nats" && u.Scheme != "tls") {
				return fmt.Errorf("%s must be nats://host:port or tls://host:port, several by commas, without credentials", key)
			}
		}
	}
	for key, prefix := range map[string]string{"events.nats.prefix": e.NATS.Prefix, "events.nats_inbound.prefix": e.NATSInbound.Prefix} {
		if !natsPrefix.MatchString(prefix) {
			return fmt.Errorf("%s must be words of letters, digits, _ and -, joined by dots", key)
		}
	}
	if (e.NATSInbound.URL != "") != (e.NATSInbound.Stream != "") {
		return fmt.Errorf("events.nats_inbound.url and events.nats_inbound.stream go together")
	}
	for key, name := range map[string]string{"events.nats_inbound.stream": e.NATSInbound.Stream, "events.nats_inbound.consumer": e.NATSInbound.Consumer} {
		if name != "" && !natsName.MatchString(name) || name == "" && e.NATSInbound.URL != "" {
			return fmt.Errorf("%s must be of letters, digits, _ and -", key)
		}
	}
	if (len(e.Kafka.Brokers) > 0) != (e.Kafka.Topic != "") {
		return fmt.Errorf("events.kafka.brokers and events.kafka.topic go together")
	}
	if (e.Kafka.User != "") != (e.Kafka.Password != "") {
		return fmt.Errorf("events.kafka.user and events.kafka.password go together")
	}
	for key, reference := range map[string]string{"events.nats.token": e.NATS.Token, "events.nats_inbound.token": e.NATSInbound.Token, "events.kafka.password": e.Kafka.Password} {
		if reference == "" {
			continue
		}
		if _, err := registry.ParseSecretRef(reference); err != nil {
			return fmt.Errorf("%s: %w", key, err)
		}
	}
	return nil
}
