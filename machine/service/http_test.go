package service_test

import (
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/seed-1e4c9d81/mcp-relay/machine/service"
)

// Every refused request allocates nothing and says why.
func TestRefusedRequestsAllocateNothing(t *testing.T) {
	s := serve(t, nil)
	cases := []struct {
		name, method, path, body string
		status                   int
		token                    string
	}{
		{"unknown path", "GET", "/vms", "", 404, "not found"},
		{"method", "PUT", "/machines", "{}", 404, "not found"},
		{"query on a read", "GET", "/images?x=1", "", 404, "not found"},
		{"empty query", "GET", "/images?", "", 404, "not found"},
		{"query on acquire", "POST", "/acquire?x=1", `{"purpose":"a","image":"host"}`, 404, "not found"},
		{"unknown machine read", "GET", "/machines/ghost", "", 404, "unknown VM"},
		{"unknown machine with query", "GET", "/machines/ghost?x=1", "", 404, "unknown VM"},
		{"unknown machine action", "POST", "/machines/ghost/release", "{}", 409, "unknown VM"},
		{"unknown action", "POST", "/machines/ghost/reboot", "{}", 404, "not found"},
		{"segments after an action", "POST", "/machines/ghost/exec/more", "{}", 404, "not found"},
		{"console", "POST", "/machines/ghost/console/open", "{}", 409, "console unavailable"},
		{"unknown console action", "POST", "/machines/ghost/console/dance", "{}", 404, "not found"},
		{"bad JSON", "POST", "/acquire", `{"purpose":`, 409, "invalid JSON"},
		{"JSON that is no object", "POST", "/acquire", `[1]`, 409, "invalid JSON"},
		{"two JSON values", "POST", "/acquire", `{} {}`, 409, "invalid JSON"},
		{"null body", "POST", "/acquire", `null`, 409, "invalid JSON"},
		{"unknown keys, sorted", "POST", "/acquire", `{"purpose":"a","zeta":1,"alpha":2}`, 409, "unknown acquisition fields: alpha, zeta"},
		{"two aliases", "POST", "/acquire", `{"purpose":"a","image":"host","line":"host"}`, 409, "ambiguous aliases"},
		{"no purpose", "POST", "/acquire", `{"image":"host"}`, 409, "purpose"},
		{"purpose of another type", "POST", "/acquire", `{"purpose":7}`, 409, "purpose"},
		{"upper-case purpose", "POST", "/acquire", `{"purpose":"A"}`, 409, "purpose"},
		{"cpu a fraction", "POST", "/acquire", `{"purpose":"a","cpu":1.5}`, 409, "must be a positive integer or null"},
		{"memory a string", "POST", "/acquire", `{"purpose":"a","memory_mb":"1"}`, 409, "must be a positive integer or null"},
		{"disk zero", "POST", "/acquire", `{"purpose":"a","disk_gb":0}`, 409, "must be a positive integer or null"},
		{"cpu a boolean", "POST", "/acquire", `{"purpose":"a","cpu":true}`, 409, "must be a positive integer or null"},
		{"ttl null", "POST", "/acquire", `{"purpose":"a","ttl_hours":null}`, 409, "ttl_hours must be"},
		{"ttl too long", "POST", "/acquire", `{"purpose":"a","ttl_hours":720.1}`, 409, "ttl_hours must be"},
		{"ttl negative", "POST", "/acquire", `{"purpose":"a","ttl_hours":-1}`, 409, "ttl_hours must be"},
		{"ttl not finite", "POST", "/acquire", `{"purpose":"a","ttl_hours":"inf"}`, 409, "ttl_hours must be"},
		{"ttl not a number", "POST", "/acquire", `{"purpose":"a","ttl_hours":"nan"}`, 409, "ttl_hours must be"},
		{"wait a string", "POST", "/acquire", `{"purpose":"a","wait":"yes"}`, 409, "must be a boolean"},
		{"vnc null", "POST", "/acquire", `{"purpose":"a","vnc":null}`, 409, "must be a boolean"},
		{"vnc", "POST", "/acquire", `{"purpose":"a","vnc":true}`, 409, "VNC unavailable"},
		{"network nobody knows", "POST", "/acquire", `{"purpose":"a","network":"mars"}`, 409, "network"},
		{"network control-only", "POST", "/acquire", `{"purpose":"a","env":"none","network":"control-only"}`, 409, "unavailable"},
		{"network the driver refuses", "POST", "/acquire", `{"purpose":"a","network":"internet"}`, 409, "cannot give the network internet"},
		{"work source", "POST", "/acquire", `{"purpose":"a","env":"none","source":"work"}`, 409, "source"},
		{"fingerprint without work", "POST", "/acquire", `{"purpose":"a","expected_source_fingerprint":{}}`, 409, "not applicable"},
		{"credential pack", "POST", "/acquire", `{"purpose":"a","env":"prod"}`, 409, "credential pack not found"},
		{"unknown image", "POST", "/acquire", `{"purpose":"a","image":"win"}`, 409, "unknown image"},
		{"unavailable image", "POST", "/acquire", `{"purpose":"a","image":"broken"}`, 409, "not built yet"},
		{"huge body", "POST", "/acquire", `{"purpose":"` + strings.Repeat("a", 9<<20) + `"}`, 413, "larger than 8 MiB"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			status, answer := s.send(c.method, c.path, c.body)
			text, _ := answer["error"].(string)
			if status != c.status || !strings.Contains(text, c.token) {
				t.Errorf("%d %q, want %d with %q", status, text, c.status, c.token)
			}
		})
	}
	s.wantNothingLeft()
}

func TestExecBodiesAreChecked(t *testing.T) {
	s := serve(t, nil)
	name := s.acquire("exec-bodies").Name
	cases := []struct {
		name, body string
		status     int
		want       string // in error or output
	}{
		{"nothing to run", `{}`, 409, "need 'argv' or 'script'"},
		{"empty argv", `{"argv":[]}`, 409, "need 'argv' or 'script'"},
		{"argv no list", `{"argv":"true"}`, 409, "need 'argv' or 'script'"},
		{"timeout zero", `{"argv":["true"],"timeout":0}`, 409, "timeout must be positive"},
		{"timeout a fraction", `{"argv":["true"],"timeout":1.5}`, 409, "timeout must be positive"},
		{"timeout no deadline can hold", `{"argv":["true"],"timeout":99999999999}`, 409, "timeout must be positive"},
		{"timeout beyond 4200 s", `{"argv":["echo","long"],"timeout":86400}`, 200, "long\n"},
		{"words that are no strings", `{"argv":["echo",1,true,null,[2]]}`, 200, "1 true null [2]\n"},
		{"script wins", `{"argv":["false"],"script":"echo $((1+2))"}`, 200, "3\n"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			status, answer := s.send("POST", "/machines/"+name+"/exec", c.body)
			if got := fmt.Sprint(answer["error"], answer["output"]); status != c.status || !strings.Contains(got, c.want) {
				t.Errorf("%d %q, want %d with %q", status, got, c.status, c.want)
			}
		})
	}
}

// A page whose name was rebound to loopback sends its own Host, and scripts of pages send an Origin.
func TestBrowsersAreRefused(t *testing.T) {
	s := serve(t, nil)
	cases := []struct {
		name, header, value string
		want                int
	}{
		{"own host", "Host", "127.0.0.1:6240", 200},
		{"localhost", "Host", "localhost", 200},
		{"IPv6 loopback", "Host", "[::1]:6240", 200},
		{"rebound name", "Host", "evil.example:6240", 403},
		{"name that begins like loopback", "Host", "127.0.0.1.evil.example", 403},
		{"another address", "Host", "192.0.2.7", 403},
		{"origin of a page", "Origin", "http://evil.example", 403},
		{"origin of a local page", "Origin", "http://localhost:6240", 403},
		{"opaque origin", "Origin", "null", 403},
	}
	for _, c := range cases {
		for _, path := range []string{"/health", "/machines"} {
			t.Run(c.name+path, func(t *testing.T) {
				if status, answer := s.send("GET", path, "", c.header, c.value); status != c.want {
					t.Errorf("%d %v, want %d", status, answer, c.want)
				}
			})
		}
	}
}

func TestLeaseCarriesExplicitNullsAndBothNames(t *testing.T) {
	s := serve(t, nil)
	status, lease := s.send("POST", "/acquire", `{"purpose":"nulls","image":"host","env":"none","ttl_hours":"0.25","memory_mb":4096,"wait":true}`)
	if status != 200 {
		t.Fatal(status, lease)
	}
	for _, key := range []string{"env", "ip", "cpu", "disk_gb", "grace_until"} {
		if value, there := lease[key]; !there || value != nil {
			t.Errorf("%s = %v (there: %t), want null", key, value, there)
		}
	}
	want := map[string]any{"machine": lease["vm"], "image_kind": "linux", "state": "running", "warned": false, "memory_mb": 4096.0, "network": "nat"}
	for key, value := range want {
		if lease[key] != value {
			t.Errorf("%s = %v, want %v", key, lease[key], value)
		}
	}
	if _, there := lease["actually_running"]; there {
		t.Error("acquire answers the snapshot's own fields")
	}
	_, list := s.send("GET", "/machines", "")
	name := lease["machine"].(string)
	for _, key := range []string{"machines", "vms"} {
		entry, _ := list[key].(map[string]any)[name].(map[string]any)
		if entry["actually_running"] != true || entry["lease_id"] != lease["lease_id"] {
			t.Errorf("%s lists %v", key, entry)
		}
	}
}

// A client that reads nothing keeps nobody else waiting.
func TestSlowReaderHoldsUpNobody(t *testing.T) {
	s := serve(t, nil)
	name := s.acquire("slow-reader").Name
	conn, err := net.Dial("tcp", s.svc.Addr())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	body := `{"argv":["sh","-c","head -c 64000 /dev/zero | tr '\\0' x"]}`
	for range 3 {
		fmt.Fprintf(conn, "POST /machines/%s/exec HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n%s", name, len(body), body)
	}
	if status, answer := s.send("POST", "/machines/"+name+"/exec", `{"argv":["true"],"timeout":20}`); status != 200 {
		t.Errorf("exec beside a slow reader = %d %v", status, answer)
	}
	if err := s.client().Release(t.Context(), name, "test"); err != nil {
		t.Error(err)
	}
}

func TestListensOnBothFamiliesWhenAsked(t *testing.T) {
	s := serve(t, func(c *service.Config) { c.Listen = "localhost:0" })
	_, port, err := net.SplitHostPort(s.svc.Addr())
	if err != nil {
		t.Fatal(err)
	}
	for _, host := range []string{"127.0.0.1", "::1"} {
		if host == "::1" && !hasIPv6() {
			continue
		}
		resp, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: 10 * time.Second}).Get("http://" + net.JoinHostPort(host, port) + "/machines")
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != 200 {
			t.Errorf("%s: %d", host, resp.StatusCode)
		}
	}
}

func hasIPv6() bool {
	l, err := net.Listen("tcp6", "[::1]:0")
	if err != nil {
		return false
	}
	return l.Close() == nil
}
