package dissect

import "reflect"

// readCM calls every getter of a CM message.
func readCM(m CM) {
	m.Whole()
	m.LocalCommID()
	m.RemoteCommID()
	var v any
	switch m.Attribute {
	case CMAttrREQ:
		v = CMREQ(m.Data)
	case CMAttrMRA:
		v = CMMRA(m.Data)
	case CMAttrREJ:
		v = CMREJ(m.Data)
	case CMAttrREP:
		v = CMREP(m.Data)
	case CMAttrRTU:
		v = CMRTU(m.Data)
	case CMAttrDREQ:
		v = CMDREQ(m.Data)
	case CMAttrDREP:
		v = CMDREP(m.Data)
	case CMAttrSIDRREQ:
		v = CMSIDRREQ(m.Data)
	case CMAttrSIDRREP:
		v = CMSIDRREP(m.Data)
	case CMAttrLAP:
		v = CMLAP(m.Data)
	case CMAttrAPR:
		v = CMAPR(m.Data)
	}
	readAll(reflect.ValueOf(v))
}

// readAll calls the methods without arguments of a view, and of the views that
// they return.
func readAll(v reflect.Value) {
	for i := range v.NumMethod() {
		if m := v.Method(i); m.Type().NumIn() == 0 {
			for _, out := range m.Call(nil) {
				if out.Kind() == reflect.Slice && out.NumMethod() > 0 && !(out.Type() == reflect.TypeFor[IPCM]() && out.IsNil()) {
					readAll(out)
				}
			}
		}
	}
}
