#!/usr/bin/env bash
# Adaptation without transcripts: a model adapted to each recording's own first pass, and its lattices rescored with it.
# Usage: steps/adapt_recordings.sh [options] --words words.txt --data DATA LM DIR OUT
# DIR and OUT are directories with lat.1.gz, lat.2.gz ... and num_jobs. OUT gets one archive and one delta (OUT/deltas) per
# recording; what a stopped run has finished is kept. If DATA has references (text), OUT/first_pass and OUT are scored,
# and a paired test compares the two.
set -euo pipefail
# shellcheck source=utils/script_common.sh
. "$(dirname "${BASH_SOURCE[0]}")/../utils/script_common.sh"

words=""  # symbol table of the lattices
data=""  # Kaldi data directory
groups=""  # recording, speaker, or a file like utt2spk (recording if DATA has segments, otherwise speaker)
text=""  # in-domain texts, separated by blanks, to adapt to as well
old_lm=""  # the model whose scores are in the lattices (LM)
old_scores=cheapest  # how they got in: by decoding (cheapest), or by rescoring (exact)
min_counts=0.5  # constrain n-grams expected so often, by order
sigma2=1  # variance of the prior
count_weight=1  # factor of expected counts
leave_out=true  # rescore each utterance with a model of the others of its recording
acoustic_scale=0.1  # of the first pass: 1 / LM weight
nj=2  # recordings at a time
min_lmwt=7  # smallest LM weight
max_lmwt=17  # largest LM weight
word_ins_penalty=0.0,0.5,1.0  # penalties
tuned_on=""  # score only the point that was best in this scored directory
parse_options "$@"
need_arguments 3
if [[ -z $words || -z $data ]]; then wrong_usage; fi
lm=${arguments[0]} from=${arguments[1]} to=${arguments[2]}
read -ra texts <<< "$text"
need_files "$words" "$lm" "$from/lat.1.gz" "$from/num_jobs" ${texts[@]+"${texts[@]}"}
log_to "$to/log/adapt_recordings.log"
need_mdi

options=(--words "$words" --data "$data" --min-counts "$min_counts" --sigma2 "$sigma2" --count-weight "$count_weight"
  --acoustic-scale "$acoustic_scale" --old-scores "$old_scores" --leave-out "$leave_out" --nj "$nj")
[[ -z $groups ]] || options+=(--groups "$groups")
[[ -z $old_lm ]] || options+=(--old-lm "$old_lm")
for file in ${texts[@]+"${texts[@]}"}; do options+=(--text "$file"); done
mdi adapt-recordings "${options[@]}" "$lm" "$from" "$to"

if [[ -e $data/text ]]; then
  mkdir -p "$to/first_pass"
  "$mdi_root/steps/link_lattices.sh" "$from" "$to/first_pass"
  points=(--words "$words" --min-lmwt "$min_lmwt" --max-lmwt "$max_lmwt" --word-ins-penalty "$word_ins_penalty")
  [[ -z $tuned_on ]] || points+=(--tuned-on "$tuned_on")
  "$mdi_root/steps/score.sh" "${points[@]}" "$data" "$to/first_pass"
  "$mdi_root/steps/score.sh" "${points[@]}" --compare-with "$to/first_pass" "$data" "$to"
fi
