// Package supervisor is the part of supervision that needs no actors: how children and supervisors are described, what is told about
// them, and the shell that carries out what package restart decides.
//
// The descriptions are those of package restart under the same names, so that whoever describes a tree imports this package alone.
// Package actors gives the shell a Runtime; nothing here knows how a child runs.
package supervisor
