package diff

import "math"

// medianRange says between which two of n sorted values the median of what they
// were drawn from lies, with a confidence of 95 % (order statistics, by the
// normal approximation of the binomial distribution).
func medianRange(n int) (low, high int) {
	half := 1.96 * math.Sqrt(float64(n)) / 2
	low = max(int(math.Floor(float64(n)/2-half)), 0)
	high = min(int(math.Ceil(float64(n)/2+half)), n-1)
	return low, high
}
