// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/rawblockd/rawblockd/ioengine"
)

// fioReport is what is used of fio's JSON.
type fioReport struct {
	Jobs []fioJob `json:"jobs"`
}

type fioJob struct {
	Error      int     `json:"error"`
	JobRuntime int64   `json:"job_runtime"` // ms
	UserCPU    float64 `json:"usr_cpu"`     // percent of the run time, of the job's thread
	SystemCPU  float64 `json:"sys_cpu"`
	Read       fioPart `json:"read"`
	Write      fioPart `json:"write"`
}

type fioPart struct {
	Bytes   int64 `json:"io_bytes"`
	Runtime int64 `json:"runtime"` // ms
	Lat     struct {
		Bins map[string]int64 `json:"bins"` // ns: how many
	} `json:"lat_ns"`
}

// parseFio reads fio's report of one job. fio may say something in front of it.
func parseFio(out []byte) (Sample, error) {
	var s Sample
	at := bytes.IndexByte(out, '{')
	if at < 0 {
		return s, fmt.Errorf("no report in its output: %s", lastWords(string(out)))
	}
	var report fioReport
	if err := json.Unmarshal(out[at:], &report); err != nil {
		return s, fmt.Errorf("its report cannot be read: %w", err)
	}
	if len(report.Jobs) != 1 {
		return s, fmt.Errorf("its report has %d jobs, want 1", len(report.Jobs))
	}
	j := report.Jobs[0]
	if j.Error != 0 {
		return s, fmt.Errorf("the job failed with errno %d: %s", j.Error, lastWords(string(out[:at])))
	}
	ms := max(j.Read.Runtime, j.Write.Runtime)
	if ms <= 0 || j.Read.Bytes+j.Write.Bytes <= 0 {
		return s, errors.New("nothing completed within the window: a longer one is needed")
	}
	s.Took = time.Duration(ms) * time.Millisecond
	s.CPU = time.Duration((j.UserCPU + j.SystemCPU) / 100 * float64(j.JobRuntime) * float64(time.Millisecond))
	for dir, part := range map[ioengine.Dir]fioPart{ioengine.Read: j.Read, ioengine.Write: j.Write} {
		s.By[dir].Bytes = part.Bytes
		for ns, n := range part.Lat.Bins {
			v, err := strconv.ParseInt(ns, 10, 64)
			if err != nil {
				return s, fmt.Errorf("its report has the latency %q: %w", ns, err)
			}
			s.By[dir].record(v, n)
		}
	}
	return s, nil
}
