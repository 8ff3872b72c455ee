// Package config reads what people write by hand: YAML files, strictly. A key that nobody knows, a key twice, a value of the
// wrong kind and a second document are errors, with the line that they are on.
//
// It owns the decoder and how its errors look. What the keys mean belongs to who reads the file.
package config
