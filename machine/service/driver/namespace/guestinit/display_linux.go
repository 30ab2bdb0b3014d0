package guestinit

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// DisplayServer is the program that gives a guest its display, where it is there.
	DisplayServer = "/usr/bin/Xvfb"

	displayName   = ":0"
	displaySocket = "/tmp/.X11-unix/X0"
	displayLog    = "/var/log/Xvfb.log"
	displayWait   = 20 * time.Second
)

// startDisplay starts the display and returns when it answers.
func (s *server) startDisplay(geometry string) error {
	log, err := os.OpenFile(displayLog, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o644)
	if err != nil {
		return err
	}
	defer log.Close()
	null, err := os.Open(os.DevNull)
	if err != nil {
		return err
	}
	defer null.Close()
	argv := []string{DisplayServer, displayName, "-screen", "0", geometry + "x24", "-nolisten", "tcp", "-ac", "-noreset"}
	_, ended, err := s.children.start(DisplayServer, argv, s.environment(), "/", null, log, log)
	if err != nil {
		return err
	}
	until := time.Now().Add(displayWait)
	for {
		err := greetDisplay()
		if err == nil {
			return nil
		}
		select {
		case status := <-ended:
			text, _ := os.ReadFile(displayLog)
			return fmt.Errorf("display server ended with status %d: %.500s", exitCode(status), text)
		case <-time.After(5 * time.Millisecond):
		}
		if time.Now().After(until) {
			return fmt.Errorf("display server does not answer: %w", err)
		}
	}
}

// greetDisplay opens an X11 connection as a client does, and wants it accepted.
func greetDisplay() error {
	conn, err := net.Dial("unix", displaySocket)
	if err != nil {
		return err
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(displayWait))
	hello := [12]byte{0: 'l', 2: 11} // little-endian, protocol 11.0, no authorization
	if _, err := conn.Write(hello[:]); err != nil {
		return err
	}
	var reply [8]byte
	if _, err := io.ReadFull(conn, reply[:]); err != nil {
		return err
	}
	if reply[0] != 1 {
		return errors.New("the display refuses connections")
	}
	return nil
}

// DisplayAvailable says whether guests of this host can have a display.
func DisplayAvailable() bool { return unix.Access(DisplayServer, unix.X_OK) == nil }
