package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
)

// extcapScript is the script's name, and so what Wireshark calls us.
const extcapScript = "rocescope"

// installExtcap puts a script into Wireshark's folder that runs this very program.
func installExtcap(ctx context.Context, a *app, dir string) error {
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find this program's own file: %w", err)
	}
	path, err := extcapPath(ctx, dir)
	if err != nil {
		return err
	}
	if old, err := os.ReadFile(path); err == nil && !strings.Contains(string(old), extcapSign) {
		return errUsage("%s is there already, and is not ours; it is left alone", path)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	script := "#!/bin/sh\n" + extcapSign + "\nexec '" + strings.ReplaceAll(self, "'", `'\''`) + "' extcap \"$@\"\n"
	if err := os.WriteFile(path, []byte(script), 0o755); err != nil {
		return err
	}
	fmt.Fprintf(a.stdout, "%s: Wireshark and tshark -D list the interfaces %sNAME from their next start on\n", path, extcapPrefix)
	return nil
}

// extcapSign is how we know our script again.
const extcapSign = "# written by rocescope extcap --install"

func uninstallExtcap(ctx context.Context, a *app, dir string) error {
	path, err := extcapPath(ctx, dir)
	if err != nil {
		return err
	}
	old, err := os.ReadFile(path)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return errUsage("%s is not there", path)
	case err != nil:
		return err
	case !strings.Contains(string(old), extcapSign):
		return errUsage("%s is not ours; it is left alone", path)
	}
	if err := os.Remove(path); err != nil {
		return err
	}
	fmt.Fprintf(a.stdout, "%s is gone\n", path)
	return nil
}

// extcapPath is where the script belongs: Wireshark knows its own folders, which are others in each version.
func extcapPath(ctx context.Context, dir string) (string, error) {
	if runtime.GOOS == "windows" {
		return "", errUsage("extcap --install writes a shell script, which Windows does not run")
	}
	if dir != "" {
		return filepath.Join(dir, extcapScript), nil
	}
	if out, err := exec.CommandContext(ctx, "tshark", "-G", "folders").Output(); err == nil {
		for line := range strings.Lines(string(out)) {
			if name, folder, ok := strings.Cut(line, ":"); ok && strings.EqualFold(strings.TrimSpace(name), "personal extcap path") {
				return filepath.Join(strings.TrimSpace(folder), extcapScript), nil
			}
		}
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return "", errUsage("extcap --install: where Wireshark's extcap folder is cannot be found out (%v): name it by --dir", err)
	}
	return filepath.Join(home, ".local", "lib", "wireshark", "extcap", extcapScript), nil
}
