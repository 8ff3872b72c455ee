package measure

import (
	"errors"
	"os"
	"os/exec"
	"syscall"
)

// EnterNamespace runs this program again in a network namespace of its own, which ends with it, with one more argument in front: the
// flag by which the copy knows that it is there. It returns when the copy has ended, and ends as that did.
func EnterNamespace(flag string) error {
	if os.Geteuid() != 0 {
		return errors.New("network namespaces and XDP need root: run it by sudo")
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	cmd := exec.Command(self, append([]string{flag}, os.Args[1:]...)...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET, Pdeathsig: syscall.SIGKILL}
	err = cmd.Run()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		os.Exit(exit.ExitCode()) // it has said why
	}
	return err
}
