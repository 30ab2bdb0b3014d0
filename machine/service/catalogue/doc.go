// Package catalogue builds the answer of /applications: what the images of a driver have installed.
package catalogue
