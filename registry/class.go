package registry

// Class is what a tool may do to the world, declared by people (R127). Ordered:
// read < sandbox < shared_write < publication.
type Class string

// The classes.
const (
	ClassRead        Class = "read"
	ClassSandbox     Class = "sandbox"
	ClassSharedWrite Class = "shared_write"
	ClassPublication Class = "publication"
)

// Classes lists the classes in order.
func Classes() []Class { return []Class{ClassRead, ClassSandbox, ClassSharedWrite, ClassPublication} }

// Valid says whether the class is one of the four.
func (c Class) Valid() bool {
	switch c {
	case ClassRead, ClassSandbox, ClassSharedWrite, ClassPublication:
		return true
	}
	return false
}

// DefaultClassification is that of a resource nobody classified (R12).
const DefaultClassification = "internal"
