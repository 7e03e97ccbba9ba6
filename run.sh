#!/usr/bin/env bash
# MDI adaptation of language models from data to the table of perplexities and word error rates.
# shellcheck disable=SC2329  # stages and what they do once are called by name
set -euo pipefail
# shellcheck source=utils/step.sh
. "$(dirname "${BASH_SOURCE[0]}")/utils/step.sh"
# shellcheck source=utils/once.sh
. "$mdi_root/utils/once.sh"
step_name=run.sh

usage() {
  cat << 'EOF'
Usage: ./run.sh [options]
With no options: the demo (text from package registries, synthetic speech), all stages. In or beside a Kaldi recipe
(egs/ami/s5b, egs/swbd/s5c, egs/wsj/s5) the corpus is that recipe's. Text only, on your own corpus:
  ./run.sh --corpus mine --in-text a.txt --background-text b.txt.gz --dev-text c.txt

  --stage N, --stop-stage N   first and last stage (0, 7): 0 data, 1 language models, 2 interpolation, 3 MDI, 4 first-pass
                              models, 5 decoding, 6 rescoring, 7 scores, table, report
  --corpus NAME               demo, ami, swbd, wsj, or a name for your own (mine if texts are given, the Kaldi recipe's, demo)
  --conf FILE                 settings, name=value (local/conf/<corpus>.conf if there is one)
  --tiny true|false           demo: a very small corpus, made on the spot without a network (false)

Your corpus, one sentence a line, plain or gzipped:
  --in-text FILE              in-domain training text
  --background-text FILE      general text; or
  --background-lm ARPA        a ready model of it, which is adapted as it is
  --dev-text, --eval-text FILE   development text, and evaluation text if there is one
  --vocab FILE                one word a line, or words.txt (words of the texts, or of the background model)
  --vocab-size N              most words to take from the background text (100000)
With speech (perplexities only without):
  --data-dir DIR[,DIR]        Kaldi data folders of development and evaluation set: decoded with the built-in English model
  --lexicon FILE              pronunciations for it (CMU's dictionary)
  --lattice-dir DIR[,DIR]     or lattices lat.N.gz of any Kaldi system for these data folders, with
  --words FILE                their symbol table, and
  --default-lm ARPA           the model that they were made with (otherwise: the first-pass model)

  --order N                   (3)
  --smoothing METHOD          kn-interpolated, kn or wb (kn-interpolated)
  --in-min-counts N-N-N       n-grams of the in-domain model seen so often, by order (1)
  --thresholds LIST           least counts of constraints, by order (2-2-2,5-3-2,6-4-3)
  --max-settings N            settings that the search for the best model tries (16)
  --first-ngrams N            n-grams, beside its words, of the first-pass model that is pruned from the in-domain one (70000)
  --nj N                      jobs (2)
  --beam, --lattice-beam      decoding (12, 6)
  --min-lmwt, --max-lmwt      LM weights that scoring tries on the development set (7, 17)
  --backend mdi|kaldi         decoding, rescoring and scoring with this package, or with Kaldi's programs and a recipe's own
                              scripts (mdi)
  --score-script FILE         kaldi: of the recipe; '' for compute-wer (local/score.sh in ami, swbd and wsj)
  --rescore-script FILE       kaldi: of the recipe, steps/lmrescore_const_arpa.sh ('': its two programs, called with more checks)
  --cmd CMD                   kaldi: run.pl, queue.pl, slurm.pl with options (run.pl)
  --egs-dir DIR               the Kaldi recipe (where you stand, or beside this folder)
Data go to data/<corpus>, models and results to exp/<corpus>, of the folder that you stand in. What is up to date is not made
again: after an interruption the same command goes on.
EOF
}

# has_packages EXTRA: mdi and what it needs are installed already, where python3 comes from
has_packages() {
  local modules=(mdi)
  [[ $1 != text && $1 != demo ]] || modules+=(num2words)
  [[ $1 != speech && $1 != demo ]] || modules+=(pywrapfst kaldifst kaldi_decoder pocketsphinx kaldialign kaldiio)
  [[ $1 != demo ]] || modules+=(ttspico)
  command -v mdi > /dev/null && python3 -c 'import sys
from importlib.util import find_spec
sys.exit(any(find_spec(name) is None for name in sys.argv[1:]))' "${modules[@]}"
}

echo "$0 $*" >&2
# ---- settings: defaults, then local/conf/<corpus>.conf, then the command line
stage=0 stop_stage=7 corpus="" conf="" tiny=false
in_text="" background_text="" background_lm="" dev_text="" eval_text="" vocab="" vocab_size=100000
data_dir="" lexicon="" lattice_dir="" words="" default_lm=""
order=3 thresholds=2-2-2,5-3-2,6-4-3 max_settings=16 first_ngrams=70000 smoothing=kn-interpolated in_min_counts=1
nj=2 beam=12 lattice_beam=6 min_lmwt=7 max_lmwt=17 word_ins_penalty=0.0,0.5,1.0 backend=mdi cmd=run.pl egs_dir=${egs_dir:-}
case="" parts="" extra="" synthetic=false
# of a Kaldi recipe, relative to it: see local/conf/ami.conf
recipe="" train_data="" set_data="" hires_data="" lang="" recipe_lm="" model_dir="" decode_dirs=""
mkgraph_opts="" decode_script=steps/nnet3/decode.sh decode_opts="" ivectors="" acwt=0.1 score_script="" rescore_script=""
options="stage stop-stage corpus conf tiny in-text background-text background-lm dev-text eval-text vocab vocab-size data-dir lexicon
 lattice-dir words default-lm order thresholds max-settings first-ngrams smoothing in-min-counts nj beam lattice-beam min-lmwt max-lmwt
 word-ins-penalty backend cmd egs-dir case train-data set-data hires-data lang model-dir decode-dirs mkgraph-opts decode-script decode-opts ivectors acwt
 score-script rescore-script"
options=${options//$'\n'/}
parse_options "$options" "$@"
[[ ${#arguments[@]} -eq 0 ]] || fail "'${arguments[0]}' is no option; see --help" 2

# the recipe that we stand in, or that stands beside us: egs/ami/s5b, egs/ami/mdi
here=$PWD
[[ -n $egs_dir || $here == "$mdi_root" || ! -d steps || ! -d utils || ! -d local ]] || egs_dir=$here
# one's own text is no part of the demo, nor of a recipe that has its own
own_text=$in_text$dev_text$eval_text$lattice_dir$data_dir
if [[ -z $corpus && -n $own_text ]]; then corpus=mine; fi
if [[ -z $corpus ]]; then
  for folder in ${egs_dir:+"$egs_dir"} "$mdi_root"; do
    name=$(basename "$(dirname "$folder")")
    if [[ -z $corpus && $name =~ ^(ami|swbd|wsj)$ ]]; then corpus=$name; fi
  done
  corpus=${corpus:-demo}
fi
[[ -n $conf || ! -f $mdi_root/local/conf/$corpus.conf ]] || conf=$mdi_root/local/conf/$corpus.conf
if [[ -n $conf ]]; then
  need_files "$conf"
  # shellcheck source=/dev/null
  . "$conf"
  parse_options "$options" "$@"
fi
[[ -z $own_text || ($corpus != demo && -z $recipe) ]] \
  || fail "--corpus $corpus has its own texts and speech; for those on the command line give another name with --corpus" 2
if [[ -n $recipe && -z $egs_dir ]]; then
  egs_dir=$(dirname "$mdi_root")/$recipe
  [[ -d $egs_dir ]] || fail "no Kaldi recipe for $corpus: $egs_dir is not there; stand in egs/$corpus/$recipe, or give --egs-dir"
fi
[[ $stage =~ ^[0-7]$ && $stop_stage =~ ^[0-7]$ ]] || fail "--stage $stage --stop-stage $stop_stage; expected numbers from 0 to 7" 2
[[ $corpus =~ ^[A-Za-z0-9._-]+$ ]] || fail "--corpus $corpus; expected a name of letters, digits, dots and dashes" 2
[[ $tiny == true || $tiny == false ]] || fail "--tiny $tiny; expected true or false" 2
[[ -z $egs_dir ]] || egs_dir=$(cd "$egs_dir" && pwd)
export egs_dir

# one NAME: a setting with a * becomes the one file or folder of the recipe that it matches
one() {
  local found
  mapfile -t found < <(cd "$egs_dir" && compgen -G "${!1}")
  [[ ${#found[@]} -le 1 ]] || fail "$1=${!1} matches ${found[*]} in $egs_dir; choose with --${1//_/-}"
  if [[ ${#found[@]} -eq 1 ]]; then printf -v "$1" '%s' "${found[0]}"; fi
}
filters=()
if [[ -n $recipe ]]; then
  for name in lang model_dir recipe_lm; do one "$name"; done
  [[ -e $egs_dir/$lang/words.txt ]] || fail "$egs_dir/$lang/words.txt is not there; the recipe's own run.sh makes it, or give --lang"
  decode_dirs=${decode_dirs//MODEL/$model_dir}
  default_lm=${default_lm:-$egs_dir/$recipe_lm}
  for name in ref hyp; do
    if [[ -x $egs_dir/local/wer_${name}_filter ]]; then filters+=("--$name-filter" "$egs_dir/local/wer_${name}_filter"); fi
  done
fi
if [[ $tiny == true ]]; then
  corpus=$corpus-tiny parts=commons thresholds=2-2-2 max_settings=2 first_ngrams=800
fi
speech=true
if [[ -z $extra && -n $data_dir$lattice_dir$recipe ]]; then extra=speech; fi
if ! has_packages "$extra"; then
  # by itself first: where the synthesiser cannot be compiled the demo does without speech
  if [[ $extra == demo ]] && ! bash -euo pipefail -c '. "$1/utils/setup.sh" demo' bash "$mdi_root"; then
    echo "run.sh: speech synthesis cannot be installed (see above): perplexities only" >&2
    extra=text speech=false
  fi
  # shellcheck source=utils/setup.sh
  . "$mdi_root/utils/setup.sh" "$extra"
fi
export speech

# ---- one run at a time in a folder; the jobs of a run that was killed keep the lock until they have ended
mkdir -p "exp/$corpus" 2> /dev/null || fail "cannot make exp/$corpus in $PWD; run this in a folder that you may write to"
if command -v flock > /dev/null; then
  exec 9> "exp/$corpus/.lock"
  if ! flock -n 9; then
    echo "run.sh: another run is at work in exp/$corpus (or what it started is); waiting for it to end" >&2
    flock 9
  fi
  # nobody else is at work here: temporary files are those of a run that was killed
  for folder in "exp/$corpus" "data/$corpus"; do
    if [[ -d $folder ]]; then find "$folder" -name '.*.tmp' -type f -delete; fi
  done
fi

# the paths of one part of the corpus; most corpora are one part
enter() {
  data=data/$corpus${1:+/$1} exp=exp/$corpus${1:+/$1}
  background=$exp/lm/background.arpa.gz
  [[ ! -e $data/background.arpa.gz ]] || background=$data/background.arpa.gz
  default=$exp/first/default.arpa.gz
  [[ ! -e $data/default.arpa.gz ]] || default=$data/default.arpa.gz
  sets=() spoken=()
  [[ ! -e $data/sets ]] || read -ra sets < "$data/sets"
  local set
  for set in ${sets[@]+"${sets[@]}"}; do
    if [[ -d $data/speech/$set ]]; then spoken+=("$set"); fi
  done
  dev=$data/${sets[0]:-dev}.txt.gz
  texts=()
  for set in ${sets[@]+"${sets[@]}"}; do texts+=("$data/$set.txt.gz"); done
}

stage_0() {
  local given=()
  local name
  for name in in_text background_text background_lm dev_text eval_text vocab lexicon words default_lm; do
    if [[ -n ${!name} ]]; then
      need_files "${!name}"
      given+=("${!name}")
    fi
  done
  export corpus tiny in_text background_text background_lm dev_text eval_text vocab vocab_size data_dir lexicon lattice_dir words
  export default_lm nj case train_data set_data lang decode_dirs
  once "data/$corpus/prepared" "$mdi_root"/local/*.sh "$mdi_root"/local/*.py ${given[@]+"${given[@]}"} -- prepare \
    "$in_text" "$background_text" "$background_lm" "$dev_text" "$eval_text" "$vocab" "$vocab_size" "$data_dir" "$lexicon" \
    "$lattice_dir" "$words" "$default_lm" "$egs_dir" "$train_data" "$set_data" "$lang" "$decode_dirs"
}

prepare() {
  "$mdi_root/local/prepare_data.sh" "data/$corpus"
  local part
  # shellcheck disable=SC2086
  for part in ${parts:-.}; do "$mdi_root/utils/validate_data.sh" "data/$corpus/$part"; done
  touch "data/$corpus/prepared"
}

stage_1() { # language models
  need 0 "$data/train.txt.gz" "$data/vocab.txt"
  once "$exp/lm/in.arpa.gz" "$data/train.txt.gz" "$data/vocab.txt" -- "$mdi_root/steps/train_lm.sh" --order "$order" \
    --smoothing "$smoothing" --min-counts "$in_min_counts" --vocab "$data/vocab.txt" "$data/train.txt.gz" "$exp/lm/in.arpa.gz"
  if [[ $background == "$exp"/* ]]; then
    need 0 "$data/background.txt.gz"
    once "$background" "$data/background.txt.gz" "$data/vocab.txt" -- "$mdi_root/steps/train_lm.sh" --order "$order" \
      --smoothing "$smoothing" --vocab "$data/vocab.txt" "$data/background.txt.gz" "$background"
  fi
}

stage_2() { # baseline: interpolation
  need 0 "$dev"
  need 1 "$exp/lm/in.arpa.gz" "$background"
  once "$exp/lm/interpolated.arpa.gz" "$exp/lm/in.arpa.gz" "$background" "$dev" -- \
    mdi mix --tune "$dev" "$exp/lm/in.arpa.gz" "$background" "$exp/lm/interpolated.arpa.gz"
}

stage_3() { # MDI: the paper's thresholds, a prior, and the best of a search
  need 0 "$data/train.txt.gz" "$dev"
  need 1 "$background"
  once "$exp/mdi/ppl.tsv" "$background" "$data/train.txt.gz" -- "$mdi_root/steps/adapt_mdi.sh" --min-counts "$thresholds" \
    --ppl "${texts[*]}" "$background" "$data/train.txt.gz" "$exp/mdi"
  once "$exp/mdi/prior.arpa.gz" "$background" "$data/train.txt.gz" -- mdi adapt --min-counts 1 --sigma2 1 \
    "$background" "$data/train.txt.gz" "$exp/mdi/prior.arpa.gz"
  # mixed with the same in-domain model as the baseline, where there is one
  local mix_with=()
  [[ ! -e $exp/lm/in.arpa.gz ]] || mix_with=(--mix-with "$exp/lm/in.arpa.gz")
  once "$exp/mdi/best.arpa.gz" "$background" "$data/train.txt.gz" "$dev" ${mix_with[@]+"${mix_with[@]:1}"} -- \
    mdi tune --max-settings "$max_settings" ${mix_with[@]+"${mix_with[@]}"} \
    "$background" "$data/train.txt.gz" "$dev" "$exp/mdi/best.arpa.gz"
}

# the models for the first pass, by the name that their decodings have
small_models() {
  echo "default $default"
  echo "mdi $exp/first/mdi.arpa.gz"
  echo "best $exp/first/best.arpa.gz"
}

# ngrams_of LM [ORDER]: their number, of all orders or of one. No pipe: gzip need not come to the end.
ngrams_of() {
  awk -F= -v order="${2:-[0-9]+}" '/^\\1-grams/ {exit} $1 ~ "^ngram +" order " *$" {n += $2} END {print n + 0}' <(gzip -cdf -- "$1")
}

# size_for LM [LIKE]: as many n-grams as another model has, or, where that is none or has not even room for the words, its words and
# --first-ngrams longer ones
size_for() {
  local words like=0
  words=$(ngrams_of "$1" 1)
  [[ -z ${2:-} ]] || like=$(ngrams_of "$2")
  echo $((like > words ? like : words + first_ngrams))
}

stage_4() { # first pass: a small model, the same with the marginals of the interpolated one, and the best one cut down to its size
  if [[ -n $background_lm && ! -e $exp/lm/interpolated.arpa.gz ]]; then
    echo "run.sh: no interpolated model in $exp/lm (stages 1 and 2 make it): the first-pass columns stay empty" >&2
    return
  fi
  need 1 "$exp/lm/in.arpa.gz"
  need 2 "$exp/lm/interpolated.arpa.gz"
  need 3 "$exp/mdi/best.arpa.gz"
  if [[ $default == "$exp"/* ]]; then
    once "$default" "$exp/lm/in.arpa.gz" -- mdi prune --max-ngrams "$(size_for "$exp/lm/in.arpa.gz")" \
      "$exp/lm/in.arpa.gz" "$default"
  fi
  match_to "$default" "$exp/lm/interpolated.arpa.gz" "$exp/first/mdi.arpa.gz"
  # what pruning takes from the marginals, matching gives back
  once "$exp/first/pruned.arpa.gz" "$exp/mdi/best.arpa.gz" "$default" -- mdi prune \
    --max-ngrams "$(size_for "$exp/mdi/best.arpa.gz" "$default")" "$exp/mdi/best.arpa.gz" "$exp/first/pruned.arpa.gz"
  match_to "$exp/first/pruned.arpa.gz" "$exp/mdi/best.arpa.gz" "$exp/first/best.arpa.gz"
}

# match_to SMALL LARGE OUT
match_to() { once "$3" "$1" "$2" "$data/train.txt.gz" -- mdi match "$1" "$2" "$data/train.txt.gz" "$3"; }

# the words of the lattices
symbols() {
  if [[ -e $data/words.txt ]]; then echo "$data/words.txt"; else echo "$exp/graph/default/words.txt"; fi
}

# rescore_anew OLD NEW FROM TO: archives of an earlier decoding into more jobs must not stay
rescore_anew() {
  rm -f -- "$4"/lat.*.gz
  "$mdi_root/steps/rescore.sh" --backend "$backend" --rescore-script "$rescore_script" --cmd "$cmd" --nj "$nj" --words "$(symbols)" "$@"
}

# link_lattices FROM TO: another system's lattices under our roof, where their scores will lie too
link_lattices() {
  local n jobs
  jobs=$(< "$1/num_jobs")
  mkdir -p "$2"
  rm -f -- "$2"/lat.*.gz "$2/rescored" # of a decoding into more jobs, or of no decoding
  for ((n = 1; n <= jobs; n++)); do ln -sf "$(absolute "$1")/lat.$n.gz" "$2/lat.$n.gz"; done
  cp "$1/num_jobs" "$2/num_jobs"
}

stage_5() { # decoding
  if [[ ${#spoken[@]} -eq 0 ]]; then
    echo "run.sh: no speech in $data/speech: no decoding" >&2
    return
  fi
  local model lm set ready
  if [[ $backend == mdi && ! -d $data/lattices ]]; then make_graphs; fi
  while read -r model lm; do
    if [[ $model != default && ! -e $lm && -n $background_lm ]]; then continue; fi
    need 4 "$lm"
    for set in "${spoken[@]}"; do
      ready=$data/lattices/$set
      if [[ -d $ready && $model == default ]]; then
        once "$exp/decode/default/$set/num_jobs" "$ready/num_jobs" "$ready/lat.1.gz" -- link_lattices "$ready" "$exp/decode/default/$set"
      elif [[ -d $ready && ($backend == mdi || ! -e $egs_dir/$model_dir/final.mdl) ]]; then
        # no acoustic model to decode with: the small model goes into the lattices instead
        once "$exp/decode/$model/$set/num_jobs" "$lm" "$exp/decode/default/$set/num_jobs" -- rescore_anew "$default" "$lm" \
          "$exp/decode/default/$set" "$exp/decode/$model/$set"
        touch "$exp/decode/$model/$set/rescored" # for the table
      elif [[ $backend == kaldi ]]; then
        decode_in_recipe "$model" "$lm" "$set"
      else
        graph_of "$model" "$lm"
        once "$exp/decode/$model/$set/num_jobs" "$exp/graph/$model/HCLG.fst" "$data/speech/$set/wav.scp" -- decode_anew \
          "$exp/graph/$model" "$data/speech/$set" "$exp/decode/$model/$set"
      fi
    done
  done < <(small_models)
}

# graph_of MODEL LM
graph_of() {
  once "$exp/graph/$1/HCLG.fst" "$2" "$data/words.txt" "$data/lexicon.txt" -- "$mdi_root/steps/make_graph.sh" \
    --words "$data/words.txt" --lexicon "$data/lexicon.txt" "$2" "$exp/graph/$1"
}

# make_graphs: each takes one core, so --nj at a time
make_graphs() {
  local model lm running=0
  while read -r model lm; do
    [[ -e $lm ]] || continue
    if [[ $running -ge $nj ]]; then
      wait -n || fail "a decoding graph was not made; see above"
      running=$((running - 1))
    fi
    # a background job would not hear Ctrl-C
    (
      trap - INT
      graph_of "$model" "$lm"
    ) &
    running=$((running + 1))
  done < <(small_models)
  while [[ $running -gt 0 ]]; do
    wait -n || fail "a decoding graph was not made; see above"
    running=$((running - 1))
  done
}

# of_set SET LIST: what a list of the recipe's, 'set=folder ...', names for the set
of_set() { tr ' ' '\n' <<< "$2" | sed -n "s/^$1=//p"; }

# decode_in_recipe MODEL LM SET: with the recipe's acoustic model, in a folder of that model's, as Kaldi wants it
decode_in_recipe() {
  local lm graph decoded hires name
  lm=$(absolute "$2") # the graph is another one if this is called in another folder
  [[ -n $model_dir && -n $lang ]] || fail "--backend kaldi decodes with an acoustic model: give --model-dir and --lang"
  hires=$(of_set "$3" "$hires_data")
  [[ -n $hires ]] || fail "--hires-data '$hires_data' names no data folder with features for the set $3"
  name=$(basename "${hires%_hires}")
  local ivectors=${ivectors//SET/$name}
  [[ -z $ivectors ]] || one ivectors
  graph=$egs_dir/$model_dir/graph_mdi_$1 decoded=$egs_dir/$model_dir/decode_mdi_$1_$3
  once "$graph/HCLG.fst" "$lm" -- "$mdi_root/steps/make_graph.sh" --backend kaldi --cmd "$cmd" --lang "$egs_dir/$lang" \
    --model "$egs_dir/$model_dir" --mkgraph-opts "$mkgraph_opts" "$lm" "$graph"
  once "$decoded/num_jobs" "$graph/HCLG.fst" -- "$mdi_root/steps/decode.sh" --backend kaldi --nj "$nj" --cmd "$cmd" --beam "$beam" \
    --lattice-beam "$lattice_beam" --acwt "$acwt" --decode-script "$decode_script" \
    --decode-opts "$decode_opts${ivectors:+ --online-ivector-dir $ivectors}" "$graph" "$egs_dir/$hires" "$decoded"
  once "$exp/decode/$1/$3/num_jobs" "$decoded/num_jobs" -- link_lattices "$decoded" "$exp/decode/$1/$3"
}

# decode GRAPH DATA DIR: goes on with a decoding that was stopped, unless the graph or the speech is newer
decode_anew() {
  if [[ -e $3/decode.json && ($1/HCLG.fst -nt $3/decode.json || $2/wav.scp -nt $3/decode.json) ]]; then
    rm -rf -- "$3"/lat.* "$3"/.lat.* "$3"/num_jobs "$3"/scoring_kaldi "$3"/wer_* "$3/decode.json"
  fi
  "$mdi_root/steps/decode.sh" --nj "$nj" --beam "$beam" --lattice-beam "$lattice_beam" "$1" "$2" "$3"
}

# the large models, by the name that the table knows
large_models() {
  local set
  echo "interpolated $exp/lm/interpolated.arpa.gz"
  for set in ${thresholds//,/ }; do echo "mdi.$set $exp/mdi/mdi.$set.arpa.gz"; done
  echo "prior $exp/mdi/prior.arpa.gz"
  echo "best $exp/mdi/best.arpa.gz"
}

stage_6() { # rescoring
  local set model lm lat
  for set in ${spoken[@]+"${spoken[@]}"}; do
    lat=$exp/decode/default/$set
    need 5 "$lat/lat.1.gz" "$lat/num_jobs" "$(symbols)"
    need 4 "$default"
    while read -r model lm; do
      if [[ ! -e $lm && -n $background_lm ]]; then continue; fi
      need 3 "$lm"
      once "$exp/rescore/$model/$set/num_jobs" "$lat/num_jobs" "$lm" "$default" -- rescore_anew "$default" "$lm" "$lat" \
        "$exp/rescore/$model/$set"
    done < <(large_models)
  done
}

# score SET DIR [BASELINE]: the first set chooses LM weight and penalty, the others are scored there
score() {
  local set=$1 dir=$2 of=$data/speech/$1 options=(${filters[@]+"${filters[@]}"})
  if [[ $backend == kaldi && -n $recipe ]]; then # its own data folder, where its script finds more than text
    of=$egs_dir/$(of_set "$set" "$set_data")
    options=(--score-script "$score_script" --lang "$egs_dir/$lang" --model "$egs_dir/$model_dir")
  fi
  [[ $set == "${sets[0]}" ]] || options+=(--tuned-on "$(dirname "$dir")/${sets[0]}")
  [[ -z ${3:-} || $dir == "$3" ]] || options+=(--compare-with "$3")
  once "$dir/scoring_kaldi/best_wer" "$dir/num_jobs" "$data/speech/$set/text" -- "$mdi_root/steps/score.sh" --backend "$backend" \
    --cmd "$cmd" --words "$(symbols)" --min-lmwt "$min_lmwt" --max-lmwt "$max_lmwt" --word-ins-penalty "$word_ins_penalty" \
    ${options[@]+"${options[@]}"} "$of" "$dir" >&2
}

stage_7() { # scores
  local set model lm baseline
  for set in ${spoken[@]+"${spoken[@]}"}; do
    need 5 "$exp/decode/default/$set/num_jobs"
    while read -r model lm; do
      if [[ -d $exp/decode/$model ]]; then score "$set" "$exp/decode/$model/$set" "$exp/decode/default/$set"; fi
    done < <(small_models)
    baseline=$exp/rescore/interpolated
    [[ -d $baseline ]] || baseline=$exp/decode/default
    while read -r model lm; do
      if [[ -d $exp/rescore/$model ]]; then
        score "$set" "$exp/rescore/$model/$set" "$baseline/$set"
      fi
    done < <(large_models)
  done
  while read -r model lm; do
    if [[ -e $lm ]]; then
      once "$exp/ppl/$model.jsonl" "$lm" "${texts[@]}" -- captured "$exp/ppl/$model.jsonl" mdi ppl --json true "$lm" "${texts[@]}"
    fi
  done < <(
    small_models | sed 's/^/first./'
    echo "in $exp/lm/in.arpa.gz"
    echo "background $background"
    large_models
  )
}

# in braces: read as a whole before it begins, so that this file may change (git pull) while it runs
{
  # input files on the command line go through stage 0 whatever the first stage is: it costs little
  if [[ $stage -gt 0 && -n $in_text ]]; then stage_0; fi
  names=(data "language models" interpolation MDI "first-pass models" decoding rescoring "scores, table, report")
  for ((n = stage; n <= stop_stage; n++)); do
    echo "--- stage $n: ${names[n]} ($corpus, $(date '+%H:%M:%S'))" >&2
    if [[ $n -eq 0 ]]; then
      stage_0
      continue
    fi
    for part in ${parts:-""}; do
      enter "$part"
      "stage_$n"
    done
  done
  if [[ $stop_stage -eq 7 ]]; then
    folders=()
    for part in ${parts:-""}; do folders+=("exp/$corpus${part:+/$part}"); done
    python3 "$mdi_root/utils/report.py" --corpus "$corpus" --synthetic "$synthetic" "${folders[@]}" "exp/$corpus/report"
    cat "exp/$corpus/report/table.txt"
  fi
  exit
}
