// Package x11 photographs an X display: the whole root window of its default screen, lossless, as a PNG file. It speaks the
// X protocol itself, so that a guest needs no program for it.
package x11
