#!/usr/bin/env bash
# An ARPA model from text: with mdi, or with SRILM or KenLM where they are installed.
# Usage: steps/train_lm.sh [options] TEXT[.gz]... OUT.arpa[.gz]
# TEXT has one sentence per line. The three backends write the same model but for rounding: SRILM's -kndiscount
# [-interpolate] or -wbdiscount, KenLM's lmplz.
set -euo pipefail
# shellcheck source=utils/script_common.sh
. "$(dirname "${BASH_SOURCE[0]}")/../utils/script_common.sh"

backend=mdi  # what estimates it: mdi, srilm or kenlm
order=3  # length of the longest n-grams
vocab=""  # one word per line; other words are <unk> (every word of the text)
smoothing=""  # kn, kn-interpolated or wb (kn; KenLM has only kn-interpolated)
min_counts=1-1-2  # keep n-grams seen so often, by order; the last repeats
cluster=""  # mdi: share the work between Dask workers, see mdi train --help
memory=2G  # for counting with mdi or KenLM
parse_options "$@"
if [[ ${#arguments[@]} -lt 2 ]]; then wrong_usage; fi
out=${arguments[-1]}
texts=("${arguments[@]:0:${#arguments[@]}-1}")
[[ $order =~ ^[1-9]$ ]] || fail "--order $order; expected a number from 1 to 9"
[[ $min_counts =~ ^[1-9][0-9]*(-[1-9][0-9]*)*$ ]] \
  || fail "--min-counts $min_counts; expected counts of 1 or more by order, such as 1-1-2"
for file in "${texts[@]}" ${vocab:+"$vocab"}; do
  [[ -r $file && ! -d $file ]] || fail "$file: no such file, or it cannot be read"
done
[[ -d $(dirname "$out") ]] || fail "$out: its folder does not exist; make it first"
name=$(basename "$out" .gz)
log_to "$(dirname "$out")/log/${name%.arpa}.log"

if [[ $backend == mdi ]]; then
  need_mdi
  mdi train --order "$order" --smoothing "${smoothing:-kn}" --min-counts "$min_counts" --memory "$memory" \
    ${vocab:+--vocab "$vocab"} ${cluster:+--cluster "$cluster"} "${texts[@]}" "$out"
  exit
fi

need_program() {
  command -v "$1" > /dev/null || fail "$1 is not on PATH; install $2, or use --backend mdi, which writes the same model"
}

# the least count of order k
least() {
  local parts
  IFS=- read -ra parts <<< "$min_counts"
  echo "${parts[$(($1 <= ${#parts[@]} ? $1 - 1 : ${#parts[@]} - 1))]}"
}

# written beside the output under another name, then renamed
[[ $out == *.gz ]] && suffix=.arpa.gz || suffix=.arpa
temporary=$(mktemp "$(dirname "$out")/.train_lm.XXXXXX$suffix")
trap 'rm -f "$temporary"' EXIT

case $backend in
  srilm)
    need_program ngram-count SRILM
    case ${smoothing:=kn} in
      kn) method=(-kndiscount) ;;
      kn-interpolated) method=(-kndiscount -interpolate) ;;
      wb) method=(-wbdiscount) ;;
      *) fail "--smoothing $smoothing; expected kn, kn-interpolated or wb" ;;
    esac
    for ((k = 1; k <= order; k++)); do method+=("-gt${k}min" "$(least "$k")"); done
    gzip -cdf -- "${texts[@]}" \
      | ngram-count -text - -order "$order" ${vocab:+-vocab "$vocab"} -unk "${method[@]}" -lm "$temporary"
    ;;
  kenlm)
    need_program lmplz KenLM
    [[ ${smoothing:-kn-interpolated} == kn-interpolated ]] || fail "KenLM has only --smoothing kn-interpolated"
    prune=()
    for ((k = 1; k <= order; k++)); do prune+=("$(($(least "$k") - 1))"); done
    pack=(cat)
    [[ $suffix == *.gz ]] && pack=(gzip -c)
    gzip -cdf -- "${texts[@]}" \
      | lmplz -o "$order" -S "$memory" --discount_fallback --prune "${prune[@]}" ${vocab:+--limit_vocab_file "$vocab"} \
      | "${pack[@]}" > "$temporary"
    ;;
  *) fail "--backend $backend; expected mdi, srilm or kenlm" ;;
esac
# both tools have been seen to fail with exit code 0
gzip -cdf -- "$temporary" | tail -n 5 | grep -qxF "\\end\\" || fail "$backend wrote no complete model; see $mdi_log"
chmod "$(printf '%o' $((0666 & ~0$(umask))))" "$temporary"
mv -- "$temporary" "$out"
