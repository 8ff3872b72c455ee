package dissect

import "testing"

// places are where fields lie in their attribute, as two sources that do not know
// of each other have them: OpenSM's ib_types.h, from which the layouts are, and,
// written down here bit by bit, the field table of libibmad (performance, IBA
// volume 1, 16.1.3; congestion control, annex A10.4.3) and the target of SRP in
// Linux (device management, IBA volume 1, 16.3.3).
var places = []struct {
	field      string
	bit, width uint16
}{
	{"portsamplescontrol.opcode", 0, 8},
	{"portsamplescontrol.portselect", 8, 8},
	{"portsamplescontrol.tick", 16, 8},
	{"portsamplescontrol.counterwidth", 29, 3},
	{"portsamplescontrol.countermask0", 34, 3},
	{"portsamplescontrol.countermasks1to9", 37, 27},
	{"portsamplescontrol.countermasks10to14", 65, 15},
	{"portsamplescontrol.samplemechanisms", 80, 8},
	{"portsamplescontrol.samplestatus", 94, 2},
	{"portsamplescontrol.optionmask", 96, 64},
	{"portsamplescontrol.vendormask", 160, 64},
	{"portsamplescontrol.samplestart", 224, 32},
	{"portsamplescontrol.sampleinterval", 256, 32},
	{"portsamplescontrol.tag", 288, 16},
	{"portsamplescontrol.counterselect", 304, 16},
	{"portsamplesresult.tag", 0, 16},
	{"portsamplesresult.samplestatus", 30, 2},
	{"portsamplesresult.counter", 32, 32},

	{"iounitinfo.changeid", 0, 16},
	{"iounitinfo.maxcontrollers", 16, 8},
	{"iounitinfo.controllerlist", 32, 1024},
	{"iocontrollerprofile.guid", 0, 64},
	{"iocontrollerprofile.deviceid", 96, 32},
	{"iocontrollerprofile.deviceversion", 128, 16},
	{"iocontrollerprofile.subsystemid", 192, 32},
	{"iocontrollerprofile.ioclass", 224, 16},
	{"iocontrollerprofile.iosubclass", 240, 16},
	{"iocontrollerprofile.protocol", 256, 16},
	{"iocontrollerprofile.protocolversion", 272, 16},
	{"iocontrollerprofile.sendmessagequeuedepth", 320, 16},
	{"iocontrollerprofile.rdmareadqueuedepth", 344, 8},
	{"iocontrollerprofile.sendmessagesize", 352, 32},
	{"iocontrollerprofile.rdmatransfersize", 384, 32},
	{"iocontrollerprofile.controlleroperationscapability", 416, 8},
	{"iocontrollerprofile.serviceentries", 432, 8},
	{"iocontrollerprofile.idstring", 512, 512},
	{"serviceentries.servicename", 0, 320},
	{"serviceentries.serviceid", 320, 64},

	{"congestioninfo.congestioninfo", 0, 16},
	{"congestioninfo.controltablecap", 16, 8},
	{"congestionkeyinfo.cc_key", 0, 64},
	{"congestionkeyinfo.cc_keyprotectbit", 64, 1},
	{"congestionkeyinfo.cc_keyleaseperiod", 80, 16},
	{"congestionkeyinfo.cc_keyviolations", 96, 16},
	{"congestionlog.logtype", 0, 8},
	{"congestionlog.congestionflags", 8, 8},
	{"congestionlog.eventcounter", 16, 16},
	{"switchcongestionsetting.control_map", 0, 32},
	{"switchcongestionsetting.victim_mask", 32, 256},
	{"switchcongestionsetting.credit_mask", 288, 256},
	{"switchcongestionsetting.threshold", 544, 4},
	{"switchcongestionsetting.packet_size", 552, 8},
	{"switchcongestionsetting.cs_threshold", 560, 4},
	{"switchcongestionsetting.cs_returndelay", 576, 16},
	{"switchcongestionsetting.marking_rate", 592, 16},
	{"switchportcongestionsetting.valid", 0, 1},
	{"switchportcongestionsetting.control_type", 1, 1},
	{"switchportcongestionsetting.threshold", 4, 4},
	{"switchportcongestionsetting.packet_size", 8, 8},
	{"switchportcongestionsetting.marking_rate", 16, 16},
	{"cacongestionsetting.port_control", 0, 16},
	{"cacongestionsetting.control_map", 16, 16},
	{"cacongestionsetting.ccti_timer", 32, 16},
	{"cacongestionsetting.ccti_increase", 48, 8},
	{"cacongestionsetting.trigger_threshold", 56, 8},
	{"cacongestionsetting.ccti_min", 64, 8},
	{"congestioncontroltable.ccti_limit", 0, 16},
	{"congestioncontroltable.cct_shift", 32, 2},
	{"congestioncontroltable.cct_multiplier", 34, 14},
	{"timestamp.timestamp", 0, 32},
}

func TestPlacesOfAttributes(t *testing.T) {
	for _, want := range places {
		rows := LookupField("infiniband." + want.field)
		if len(rows) == 0 {
			t.Errorf("there is no field %s", want.field)
			continue
		}
		if f := rows[0]; f.Bit != want.bit || f.Width != want.width {
			t.Errorf("%s is %d bits at bit %d, want %d at %d", want.field, f.Width, f.Bit, want.width, want.bit)
		}
	}
}
