package clickhouse

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"regexp"
	"strings"
)

// Target says which servers, as a URL:
//
//	clickhouse://USER:PASSWORD@HOST:PORT,HOST:PORT…/DATABASE?cluster=NAME&secure=true
//
// Each host is a shard, always in this order. Everything but the first host may be left out. The password may also come from
// the environment, CLICKHOUSE_PASSWORD, where it is not seen in the list of processes.
type Target struct {
	Shards         []string // HOST:PORT
	User, Password string
	Database       string
	Cluster        string // for tables that read all shards; "" = none
	Secure         bool   // TLS
}

// DefaultDatabase is the database where the URL names none.
const DefaultDatabase = "rocescope"

var plainName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// ParseTarget reads a URL.
func ParseTarget(text string) (*Target, error) {
	rest, ok := strings.CutPrefix(text, "clickhouse://")
	if !ok {
		return nil, errors.New("a ClickHouse URL begins with clickhouse://")
	}
	hosts, tail := rest, ""
	if i := strings.IndexAny(rest, "/?"); i >= 0 {
		hosts, tail = rest[:i], rest[i:]
	}
	t := &Target{User: "default", Database: DefaultDatabase, Password: os.Getenv("CLICKHOUSE_PASSWORD")}
	if i := strings.LastIndexByte(hosts, '@'); i >= 0 {
		u, err := url.Parse("x://" + hosts[:i] + "@host")
		if err != nil {
			return nil, errors.New("user and password of a ClickHouse URL are written as in other URLs, with % for what has a meaning there")
		}
		t.User = u.User.Username()
		if p, ok := u.User.Password(); ok {
			t.Password = p
		}
		hosts = hosts[i+1:]
	}
	u, err := url.Parse("x://host" + tail)
	if err != nil {
		return nil, fmt.Errorf("%q does not read as database and options of a ClickHouse URL", tail)
	}
	if name := strings.Trim(u.Path, "/"); name != "" {
		t.Database = name
	}
	for key, values := range u.Query() {
		switch key {
		case "cluster":
			t.Cluster = values[0]
		case "secure":
			t.Secure = values[0] == "true" || values[0] == "1"
		default:
			return nil, fmt.Errorf("a ClickHouse URL has no option %q: there are cluster and secure", key)
		}
	}
	if !plainName.MatchString(t.Database) || t.Cluster != "" && !plainName.MatchString(t.Cluster) {
		return nil, errors.New("database and cluster of a ClickHouse URL are words of letters, digits and _")
	}
	port := "9000"
	if t.Secure {
		port = "9440"
	}
	for _, h := range strings.Split(hosts, ",") {
		if h == "" {
			return nil, errors.New("a ClickHouse URL names a host: clickhouse://HOST:9000/DATABASE")
		}
		if _, _, err := net.SplitHostPort(h); err != nil {
			h = net.JoinHostPort(strings.Trim(h, "[]"), port)
		}
		t.Shards = append(t.Shards, h)
	}
	return t, nil
}
