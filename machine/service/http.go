package service

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/seed-1e4c9d81/mcp-relay/machine"
)

// maxBody is the largest request body, in bytes.
const maxBody = 8 << 20

// operation answers one request whose body has been read.
type operation func(r *http.Request, body []byte) (any, error)

// handler checks who asks and from where, then routes by the exact path. There are no query parameters: a path with a query
// is another path, and unknown.
func (s *Service) handler() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := checkOrigin(r); err != nil {
			s.answer(w, r, nil, err)
			return
		}
		if r.Method == http.MethodGet && r.RequestURI == "/health" {
			s.answer(w, r, s.health(), nil)
			return
		}
		if err := checkPeer(r); err != nil {
			s.answer(w, r, nil, err)
			return
		}
		if !s.activity.enter() {
			s.answer(w, r, nil, leaving())
			return
		}
		defer s.activity.exit()
		s.serve(w, r)
	})
}

func (s *Service) serve(w http.ResponseWriter, r *http.Request) {
	op := s.route(r.Method, r.RequestURI)
	if op == nil {
		s.answer(w, r, nil, &refusal{Status: http.StatusNotFound, Code: machine.CodeNotFound, Text: "not found"})
		return
	}
	body, err := readBody(w, r)
	if err != nil {
		s.answer(w, r, nil, err)
		return
	}
	if r.Method == http.MethodPost && r.RequestURI == "/acquire" {
		s.serveAcquire(w, r, body)
		return
	}
	value, err := op(r, body)
	_ = s.answer(w, r, value, err) // the client has gone: what was done stays done
}

// serveAcquire releases a machine whose lease nobody learned of.
func (s *Service) serveAcquire(w http.ResponseWriter, r *http.Request, body []byte) {
	if meant := r.Header.Get(machine.InstanceHeader); meant != "" && meant != s.instance {
		_ = s.answer(w, r, nil, otherInstance())
		return
	}
	order, err := s.parseAcquire(body)
	if err != nil {
		_ = s.answer(w, r, nil, err)
		return
	}
	name, lease, err := s.acquire(r.Context(), order)
	if err != nil {
		_ = s.answer(w, r, nil, err)
		return
	}
	lost := r.Context().Err()
	if lost == nil {
		lost = s.answer(w, r, lease, nil)
	}
	if lost == nil {
		return
	}
	s.log.Warn().Err(lost).Str("machine", name).Msg("the answer to acquire was not delivered: the machine is released")
	_ = s.end(name, reasonUndelivered) // logged there, and retried by the reaper
}

// route finds the operation of a path; nil when there is none.
func (s *Service) route(method, path string) operation {
	read := func(f func(*http.Request) (any, error)) operation {
		if method != http.MethodGet {
			return nil
		}
		return func(r *http.Request, _ []byte) (any, error) { return f(r) }
	}
	switch path {
	case "/":
		return read(s.index)
	case "/images":
		return read(s.images)
	case "/applications":
		return read(s.applications)
	case "/capabilities":
		return read(s.capabilities)
	case "/acquisition-capabilities":
		return read(s.acquisitionCapabilities)
	case "/machines":
		return read(s.list)
	case "/acquire":
		return post(method, func(*http.Request, []byte) (any, error) { return nil, nil }) // serveAcquire does it
	case "/gc":
		return post(method, s.collect)
	}
	rest, ok := strings.CutPrefix(path, "/machines/")
	if !ok {
		return nil
	}
	return s.routeMachine(method, rest)
}

func (s *Service) routeMachine(method, rest string) operation {
	name, action, has := strings.Cut(rest, "/")
	if !has && method == http.MethodGet {
		return func(*http.Request, []byte) (any, error) { return s.item(name) }
	}
	actions := map[string]func(string, []byte) (any, error){
		"heartbeat": s.serveHeartbeat, "exec": s.serveExec, "push": s.servePush, "pull": s.servePull, "release": s.serveRelease,
		"console": refuseConsole, "console/resolve": refuseConsole, "console/open": refuseConsole, "console/cancel": refuseConsole,
	}
	f, known := actions[action]
	if !known {
		return nil
	}
	return post(method, func(_ *http.Request, body []byte) (any, error) { return f(name, body) })
}

func post(method string, op operation) operation {
	if method != http.MethodPost {
		return nil
	}
	return op
}

// readBody reads a POST's body whole, or refuses it.
func readBody(w http.ResponseWriter, r *http.Request) ([]byte, error) {
	if r.Method != http.MethodPost {
		return nil, nil
	}
	control := http.NewResponseController(w)
	_ = control.SetReadDeadline(time.Now().Add(bodyLimit)) // always possible on a TCP connection
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	var tooLarge *http.MaxBytesError
	switch {
	case errors.As(err, &tooLarge):
		return nil, &refusal{Status: http.StatusRequestEntityTooLarge, Code: machine.CodeInvalidRequest, Text: "the body is larger than 8 MiB"}
	case err != nil:
		return nil, &refusal{Status: http.StatusBadRequest, Code: machine.CodeInvalidRequest, Text: "the body did not arrive", cause: err}
	}
	_ = control.SetReadDeadline(time.Time{})
	return body, nil
}

// answer writes one answer. Its error means that the client did not get it, as far as can be told.
func (s *Service) answer(w http.ResponseWriter, r *http.Request, value any, failure error) error {
	status := http.StatusOK
	if failure != nil {
		refusal := asRefusal(failure)
		status, value = refusal.Status, refusal
		if status >= http.StatusInternalServerError {
			s.log.Error().Err(failure).AnErr("cause", refusal.cause).Str("request", r.Method+" "+r.URL.Path).Msg("request failed")
		}
	}
	var body bytes.Buffer
	encoder := json.NewEncoder(&body)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	if err := encoder.Encode(value); err != nil {
		http.Error(w, `{"error": "the answer cannot be written"}`, http.StatusInternalServerError)
		return err
	}
	control := http.NewResponseController(w)
	_ = control.SetWriteDeadline(time.Now().Add(answerLimit)) // a client that does not read holds nothing up for longer
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	if _, err := w.Write(body.Bytes()); err != nil {
		return err
	}
	return control.Flush()
}

// checkOrigin keeps browsers out: a page that rebinds its name to loopback still sends its own Host or Origin.
func checkOrigin(r *http.Request) error {
	host := r.Host
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	forbidden := &refusal{Status: http.StatusForbidden, Code: machine.CodeOriginRefused}
	switch {
	case !isLoopback(strings.Trim(host, "[]")):
		forbidden.Text = "the Host header names no loopback address"
	case len(r.Header["Origin"]) > 0:
		forbidden.Text = "requests of web pages are not served"
	default:
		return nil
	}
	return forbidden
}
