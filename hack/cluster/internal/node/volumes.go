// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"unsafe"
)

// openVolumes makes each new volume writable for every user. The provisioner of
// the controller manager makes them for root alone, while a pod under the
// restricted security level runs as anybody else, and the kubelet does not change
// the owner of a host path.
func openVolumes() error {
	watch, err := syscall.InotifyInit1(syscall.IN_CLOEXEC)
	if err != nil {
		return err
	}
	if _, err := syscall.InotifyAddWatch(watch, volumesMount, syscall.IN_CREATE|syscall.IN_ONLYDIR); err != nil {
		return errors.Join(err, syscall.Close(watch))
	}
	go func() {
		events := make([]byte, 64*(syscall.SizeofInotifyEvent+syscall.NAME_MAX+1))
		for {
			n, err := syscall.Read(watch, events)
			if errors.Is(err, syscall.EINTR) {
				continue
			}
			if err != nil {
				fmt.Fprintln(os.Stderr, "watch the volumes:", err)
				return
			}
			for _, name := range eventNames(events[:n]) {
				if err := os.Chmod(filepath.Join(volumesMount, name), 0o777); err != nil {
					fmt.Fprintln(os.Stderr, "open a volume:", err)
				}
			}
		}
	}()
	return nil
}

// eventNames reads the file names out of a buffer of inotify(7) events.
func eventNames(buffer []byte) []string {
	var names []string
	for len(buffer) >= syscall.SizeofInotifyEvent {
		event := (*syscall.InotifyEvent)(unsafe.Pointer(&buffer[0]))
		end := syscall.SizeofInotifyEvent + int(event.Len)
		if end > len(buffer) {
			break
		}
		name := bytes.TrimRight(buffer[syscall.SizeofInotifyEvent:end], "\x00")
		if len(name) > 0 {
			names = append(names, string(name))
		}
		buffer = buffer[end:]
	}
	return names
}
