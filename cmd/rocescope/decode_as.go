package main

import (
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/rocescope/rocescope/dissect"
	"github.com/rocescope/rocescope/flows"
	"github.com/rocescope/rocescope/internal/filter"
)

// decodeAs is the option by which the user says what connections carry.
type decodeAs []string

func (o *decodeAs) add(cmd *cobra.Command) {
	cmd.Flags().StringArrayVarP((*[]string)(o), "decode-as", "d", nil,
		"what connections carry, where that is not known: a QPN, port==N of the CM exchange, or a filter that selects a SEND, a comma, and the `protocol`: "+
			strings.Join(dissect.UpperKeys(), ", ")+"; may be repeated")
	_ = cmd.RegisterFlagCompletionFunc("decode-as", func(_ *cobra.Command, _ []string, begun string) ([]string, cobra.ShellCompDirective) {
		at := strings.LastIndexAny(begun, ",=") + 1
		var all []string
		for _, key := range dissect.UpperKeys() {
			if at > 0 && strings.HasPrefix(key, begun[at:]) {
				all = append(all, begun[:at]+key)
			}
		}
		return all, cobra.ShellCompDirectiveNoFileComp
	})
}

// parse reads what was given: as tshark's -d, SELECTOR,PROTOCOL; an equals sign does as well as the comma.
func (o decodeAs) parse() (all []flows.DecodeAs, err error) {
	for _, text := range o {
		at := strings.LastIndexAny(text, ",=")
		if at <= 0 || text[at-1] == '=' {
			return nil, errUsage("--decode-as %q has no protocol: it is SELECTOR,PROTOCOL, for instance 0x12,nvme; the protocols are %s", text, strings.Join(dissect.UpperKeys(), ", "))
		}
		key := strings.ToLower(strings.TrimSpace(text[at+1:]))
		protocol, ok := dissect.UpperByKey(key)
		if !ok {
			if near := nearest(key, dissect.UpperKeys()); near != "" {
				return nil, errUsage("--decode-as knows no protocol %q; did you mean %q? There are %s", key, near, strings.Join(dissect.UpperKeys(), ", "))
			}
			return nil, errUsage("--decode-as knows no protocol %q; there are %s", key, strings.Join(dissect.UpperKeys(), ", "))
		}
		d := flows.DecodeAs{Protocol: protocol}
		if err := selectDecodeAs(&d, strings.TrimSpace(text[:at])); err != nil {
			return nil, err
		}
		all = append(all, d)
	}
	return all, nil
}

// selectDecodeAs reads a selector.
func selectDecodeAs(d *flows.DecodeAs, text string) error {
	name, value, named := strings.Cut(text, "==")
	if !named {
		name, value = "qp", text
	}
	n, err := strconv.ParseUint(strings.TrimSpace(value), 0, 32)
	switch name = strings.TrimSpace(name); {
	case err == nil && name == "qp":
		if n == 0 || n > 0xFFFFFF {
			return errUsage("--decode-as %s: a QPN is between 1 and 0xffffff", text)
		}
		d.QPN = uint32(n)
		return nil
	case err == nil && name == "port":
		if n == 0 || n > 0xFFFF {
			return errUsage("--decode-as %s: a port is between 1 and 65535", text)
		}
		d.Port = uint16(n)
		return nil
	}
	f, ferr := filter.Compile(text)
	if ferr != nil {
		return filterError("the selector of --decode-as", ferr)
	}
	if f.Needs() > filter.NeedPacket {
		return errUsage("--decode-as %s: the selector may only ask what stands in the packet itself", text)
	}
	d.Match = func(p *dissect.Packet, frame []byte) bool { return f.Match(p, frame, nil) }
	return nil
}
