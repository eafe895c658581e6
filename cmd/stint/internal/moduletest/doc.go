// Package moduletest tests the modules of this repository from the view of another one: an
// import brings only the modules that it should, go install builds the program, and modules
// of different versions build together. It serves the modules from a folder, as a module
// proxy.
package moduletest
