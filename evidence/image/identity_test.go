package image

import "testing"

func demo() (map[string]string, Descriptor, string) {
	backend := map[string]string{"endpoint": "http://127.0.0.1:6240", "tartHome": "/Users/dev/.tart"}
	d := Descriptor{
		Source: Display, Enclosure: "relay-demo-1a2b3c4d", SessionID: "session-0demo", ExecutionID: "execution-0demo",
		ActionID: "action-0demo", StepID: "shell-1", Phase: "after", CapturedAt: "2026-11-30T10:00:00.250Z",
		SHA256: "5f36a5e4a3b14342bde5c4a49c760646fb24b332f45e9f903ad4f48fdf8aa94f", Bytes: 10, MimeType: "image/png",
	}
	return backend, d, "a000004-20261130T100000.250Z-after-execution-0demo.png"
}

func TestIdentityGoldenVector(t *testing.T) {
	backend, d, name := demo()
	binding := Binding("owner-demo", "relay-demo-1a2b3c4d", backend)
	if want := "facb8932bb98535bccbd5331723d10eef6b4be870cad61b2937b29a31a42e2d0"; binding != want {
		t.Errorf("Binding = %s, want %s", binding, want)
	}
	id := ID(binding, d, name)
	if want := "image-38a254d5f5e291e08d1f88537ba8ec92be97cb83d5a6d43d5ce27fece1137b99"; id != want {
		t.Errorf("ID = %s, want %s", id, want)
	}
	if !ValidID(id) {
		t.Errorf("ValidID(%s) = false", id)
	}
}
