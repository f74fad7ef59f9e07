package filestore

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"strings"
)

func processBirth(pid int) (string, bool) {
	if pid <= 0 {
		return "", false
	}
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return "", processExists(pid) // where /proc is not to be had
	}
	// The name, in parentheses, may hold anything; proc_pid_stat(5) counts the
	// fields from 1, so that behind it come state, field 3, and starttime, 22.
	i := bytes.LastIndexByte(stat, ')')
	fields := strings.Fields(string(stat[i+1:]))
	if i < 0 || len(fields) < 20 {
		return "", true
	}
	if state := fields[0]; state == "Z" || state == "X" {
		return "", false
	}
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return "", true
	}
	if _, err := strconv.ParseUint(fields[19], 10, 64); err != nil {
		return "", true
	}
	return strings.TrimSpace(string(boot)) + " " + fields[19], true
}
