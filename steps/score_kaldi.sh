#!/usr/bin/env bash
# WER of lattices with Kaldi: steps/scoring/score_kaldi_wer.sh, or a recipe's own script, which may use NIST's sclite.
# Usage: steps/score_kaldi.sh [options] --words words.txt DATA DIR
# Leaves DIR/scoring_kaldi/best_wer and DIR/scoring_kaldi/wer_details/ behind, beside DIR/wer_<LMWT>_<WIP> or sclite's
# reports.
set -euo pipefail
# shellcheck source=utils/script_common.sh
. "$(dirname "${BASH_SOURCE[0]}")/../utils/script_common.sh"
# shellcheck source=utils/kaldi.sh
. "$mdi_root/utils/kaldi.sh"

words=""  # symbol table of the lattices
min_lmwt=7  # smallest LM weight
max_lmwt=17  # largest LM weight
word_ins_penalty=0.0,0.5,1.0  # penalties
tuned_on=""  # score only the point that was best in this scored directory
compare_with=""  # DIR[,DIR]: scored directories of other systems on the same data: are the differences significant?
score_script=""  # of the recipe, such as local/score.sh, which may use NIST's sclite; where it lacks something that it
                 # needs, score_kaldi_wer.sh scores instead
lang=""  # what that script needs: lang directory (that of words.txt)
model=""  # what that script needs: directory with final.mdl
cmd=run.pl  # run.pl, queue.pl, slurm.pl with options
egs_dir=${egs_dir:-}  # the recipe (KALDI_ROOT/egs/wsj/s5)
parse_options "$@"
need_arguments 2
if [[ -z $words ]]; then wrong_usage; fi
data=$(absolute "${arguments[0]}") folder=$(absolute "${arguments[1]}") words=$(absolute "$words")
need_files "$data/text" "$words" "$folder/lat.1.gz"
log_to "$folder/log/score.log"
IFS=, read -ra others <<< "$compare_with"
compared=() # the same as options
for i in "${!others[@]}"; do
  others[i]=$(absolute "${others[i]}")
  compared+=(--compare-with "${others[i]}")
done

# best FOLDER: the LM weight and the penalty that it was scored with, one per line
best() {
  local details=$1/scoring_kaldi/wer_details
  [[ -e $details/lmwt && -e $details/wip ]] || fail "$1 has not been scored"
  whole_number "$details/lmwt"
  cat "$details/wip"
}

# every point, one 'weight penalty' per line
points() {
  local penalty
  for penalty in ${word_ins_penalty//,/ }; do
    seq -f "%.0f $penalty" "$min_lmwt" "$max_lmwt"
  done
}

# with_recipe: scores with the recipe's script; false if that lacks what it needs. Kaldi's scripts look for all of that
# before they write anything, so a failure that leaves nothing behind is one of these, and any other one is an error.
with_recipe() {
  local options=(--cmd "$cmd" --min-lmwt "$min_lmwt" --max-lmwt "$max_lmwt") penalties=0.0 status=0 file bad
  local log=$folder/log/recipe_score.log
  if [[ ! -x $egs_dir/$score_script ]]; then
    echo "$script_name: no $score_script in $egs_dir" >&2
    return 1
  fi
  if grep -q '^word_ins_penalty=' "$egs_dir/$score_script"; then
    penalties=$word_ins_penalty
    options+=(--word-ins-penalty "$penalties")
  fi
  # the model and its frame rate are looked for above the lattices: links, where these are not in the model's own directory
  for file in final.mdl frame_shift frame_subsampling_factor; do
    if [[ -n $model && -e $model/$file && (-L $folder/../$file || ! -e $folder/../$file) ]]; then
      ln -sfn "$model/$file" "$folder/../$file"
    fi
  done
  # data and lang as the recipe writes them: AMI's script finds the microphone in data/ihm/dev
  in_egs "$score_script" "${options[@]}" "${data#"$egs_dir"/}" "${lang#"$egs_dir"/}" "$folder" > "$log" 2>&1 \
    || status=$?
  local made=("$folder/scoring" "$folder/ascoring" "$folder/scoring_kaldi")
  if [[ -z $(find "${made[@]}" -name '[^.]*' -type f -print -quit 2> /dev/null) ]]; then
    echo "$script_name: $score_script cannot score $folder: $(tail -n 1 "$log")" >&2
    return 1
  fi
  [[ $status -eq 0 ]] || fail "$score_script failed: $(tail -n 1 "$log"); see $log, or use --score-script ''"
  # neither a program that fails within a pipe nor one that is missing makes these scripts fail
  bad=$(grep -rlE --include='*.log' '^ERROR \(|command not found|^Traceback' "$log" "${made[@]}" \
    2> /dev/null || true)
  [[ -z $bad ]] || fail "$score_script: a program failed, see ${bad%%$'\n'*}; or use --score-script ''"
  word_ins_penalty=$penalties
}

# has_reports: did it use NIST's sclite?
has_reports() {
  local weight penalty where
  read -r weight penalty < <(points)
  for where in "ascore_$weight" "score_$weight" "score_${weight}_$penalty"; do
    if compgen -G "$folder/$where/*.ctm.filt.raw" > /dev/null; then return; fi
  done
  return 1
}

# as_details: a recipe that leaves only wer_<LMWT>_<WIP> (Switchboard without stm) gets the files that Kaldi's own
# script leaves
as_details() {
  local weight penalty scoring=$folder/scoring_kaldi
  mkdir -p "$scoring"
  while read -r weight penalty; do
    grep WER "$folder/wer_${weight}_$penalty" /dev/null \
      || fail "$score_script left no result that is known here; use --score-script ''"
  done < <(points) > "$scoring/wers"
  "$egs_dir/utils/best_wer.sh" < "$scoring/wers" > "$scoring/best_wer"
  read -r weight penalty < <(sed 's/.*wer_\([0-9]*\)_\([0-9.]*\)$/\1 \2/' "$scoring/best_wer")
  mkdir -p "$scoring/wer_details" "$scoring/penalty_$penalty"
  echo "$weight" > "$scoring/wer_details/lmwt"
  echo "$penalty" > "$scoring/wer_details/wip"
  cp "$folder/scoring/text.filt" "$scoring/test_filt.txt"
  cp "$folder/scoring/$weight.$penalty.txt" "$scoring/penalty_$penalty/$weight.txt"
  compute-wer-bootci --mode=present "ark:$scoring/test_filt.txt" "ark:$scoring/penalty_$penalty/$weight.txt" \
    > "$scoring/wer_details/wer_bootci"
}

# compare_words OTHER: is the other system's best path worse?
compare_words() {
  local texts=() one point weight penalty
  for one in "$1" "$folder"; do
    point=$(best "$one")
    { read -r weight && read -r penalty; } <<< "$point"
    [[ -e $one/scoring_kaldi/penalty_$penalty/$weight.txt ]] \
      || fail "$one was scored in another way (sclite?); remove $one/scoring_kaldi and score it again"
    texts+=("ark:$one/scoring_kaldi/penalty_$penalty/$weight.txt")
  done
  compute-wer-bootci --mode=present "ark:$folder/scoring_kaldi/test_filt.txt" "${texts[@]}"
  echo "Set1 is $1, Set2 is $folder"
}

    need_kaldi lattice-best-path lattice-scale lattice-add-penalty compute-wer compute-wer-bootci align-text
    if [[ -n $tuned_on ]]; then
      point=$(best "$(absolute "$tuned_on")")
      { read -r min_lmwt && read -r word_ins_penalty; } <<< "$point"
      max_lmwt=$min_lmwt
    fi
    # of an earlier scoring: nothing that could be taken for a result of this one
    rm -rf "$folder"/scoring_kaldi/* "$folder/scoring" "$folder/ascoring"
    while read -r weight penalty; do
      rm -rf "$folder/ascore_$weight" "$folder/score_$weight" "$folder/score_${weight}_$penalty" \
        "$folder/wer_${weight}_$penalty"
    done < <(points)
    lang=$(cd "${lang:-$(dirname "$words")}" && pwd)
    data=$(cd "$data" && pwd)
    [[ -z $model ]] || model=$(cd "$model" && pwd)
    if [[ -z $score_script ]] || ! with_recipe; then
      [[ -z $score_script ]] \
        || echo "$script_name: steps/scoring/score_kaldi_wer.sh scores instead; once the other one works, remove \
$folder/scoring_kaldi and score again" >&2
      # it looks for words.txt in a directory
      mkdir -p "$folder/scoring_kaldi/lang"
      cp "$words" "$folder/scoring_kaldi/lang/words.txt"
      in_egs steps/scoring/score_kaldi_wer.sh --cmd "$cmd" --min-lmwt "$min_lmwt" --max-lmwt "$max_lmwt" \
        --word-ins-penalty "$word_ins_penalty" "$data" "$folder/scoring_kaldi/lang" "$folder" >&2
    fi
    if has_reports; then
      need_mdi
      python3 "$mdi_root/utils/score_reports.py" --points "$(points | tr ' \n' ':,' | sed 's/,$//')" \
        ${compared[@]+"${compared[@]}"} "$(basename "$data")" "$folder"
    else
      [[ -e $folder/scoring_kaldi/best_wer ]] || as_details
      cat "$folder/scoring_kaldi/best_wer"
      if [[ ${#others[@]} -gt 0 ]]; then
        for other in "${others[@]}"; do compare_words "$other"; done \
          > "$folder/scoring_kaldi/wer_details/comparison"
        cat "$folder/scoring_kaldi/wer_details/comparison"
      fi
    fi
    weight=$(whole_number "$folder/scoring_kaldi/wer_details/lmwt")
    if [[ $min_lmwt -ne $max_lmwt && ($weight -eq $min_lmwt || $weight -eq $max_lmwt) ]]; then
      echo "$script_name: the best LM weight, $weight, is at the edge of the range; widen --min-lmwt or --max-lmwt" >&2
    fi
