# shellcheck shell=bash
# A Kaldi recipe, egs/<corpus>/<recipe>: where it is, which of its files are meant, and decoding and scoring as it does
# them itself. The variables are options of run.sh; local/conf/ami.conf explains them. Source it after
# utils/script_common.sh.
# shellcheck disable=SC2154

# of_set SET LIST: what a list, 'set=directory ...', names for the set
of_set() { tr ' ' '\n' <<< "$2" | sed -n "s/^$1=//p"; }

# recipe_around: the recipe in the current directory, if it is one
recipe_around() { if [[ $PWD != "$mdi_root" && -d steps && -d utils && -d local ]]; then echo "$PWD"; fi; }

# known_corpus FOLDER...: the corpus of egs/<corpus>/<recipe> or of a clone beside it, if we have settings for it
known_corpus() {
  local folder name
  for folder in "$@"; do
    name=$(basename "$(dirname "$folder")")
    if [[ $name =~ ^(ami|swbd|wsj)$ ]]; then
      echo "$name"
      return
    fi
  done
}

# find_recipe: egs_dir, which must be a directory of the name that the settings are for
find_recipe() {
  egs_dir=${egs_dir:-$(dirname "$mdi_root")/$recipe}
  [[ -d $egs_dir ]] \
    || fail "no Kaldi recipe for $corpus: $egs_dir is not there; change to egs/$corpus/$recipe, or give --egs-dir"
  egs_dir=$(cd "$egs_dir" && pwd)
  [[ $(basename "$egs_dir") == "$recipe" ]] \
    || fail "$egs_dir is not $recipe, for which the settings of $conf are; change to \
egs/$corpus/$recipe, or give --egs-dir. If yours is laid out in the same way: --recipe $(basename "$egs_dir")"
}

# choose_files: settings with a * become the one file or directory of the recipe that they match; default_lm: the model of
# its lattices, where there is one or the other
choose_files() {
  local name pair
  for name in lang model_dir recipe_lm; do choose_one "$name"; done
  decode_dirs=${decode_dirs//MODEL/$model_dir}
  if [[ -n $default_lm ]]; then return; fi
  if [[ -e $egs_dir/$recipe_lm ]]; then default_lm=$egs_dir/$recipe_lm; fi
  for pair in $decode_dirs; do
    if [[ -e $egs_dir/${pair#*=}/lat.1.gz ]]; then default_lm=$egs_dir/$recipe_lm; fi
  done
}

choose_one() {
  local found
  mapfile -t found < <(cd "$egs_dir" && compgen -G "${!1}")
  [[ ${#found[@]} -le 1 ]] || problems+=("$1=${!1} matches ${found[*]} in $egs_dir; choose with --${1//_/-}")
  if [[ ${#found[@]} -eq 1 ]]; then printf -v "$1" '%s' "${found[0]}"; fi
}

# extend_lang: --new-words add: a lang directory beside the recipe's, with the words of the training text that it lacks,
# which all models and graphs are made with
extend_lang() {
  need_files "$egs_dir/$lang/L.fst"
  make_once "$egs_dir/${lang}_mdi" from "$egs_dir/$lang/words.txt" "$egs_dir/$lang/L.fst" "$egs_dir/$train_data/text" \
    ${lexicon:+"$lexicon"} by "$steps/extend_lang.sh" --lexicon "$lexicon" "$egs_dir/$lang" "$egs_dir/$train_data/text" \
    "$egs_dir/${lang}_mdi"
  lang+=_mdi
}

# decodes_here: is there an acoustic model to decode with?
decodes_here() { [[ $backend == kaldi && -n $model_dir && -e $egs_dir/$model_dir/final.mdl ]]; }

# look_for_kaldi: what --backend kaldi will lack from stage 5 on
look_for_kaldi() {
  local program pair lacking=()
  find_kaldi
  for program in arpa2fst arpa-to-const-arpa fstproject lattice-lmrescore lattice-lmrescore-const-arpa \
    lattice-best-path compute-wer; do
    command -v "$program" > /dev/null || lacking+=("$program")
  done
  [[ ${#lacking[@]} -eq 0 ]] \
    || problems+=("programs that are not on PATH: ${lacking[*]}; set KALDI_ROOT to a built Kaldi, or use --backend mdi")
  if ! decodes_here; then
    echo "$script_name: no acoustic model ${model_dir:+$egs_dir/$model_dir/final.mdl }(the recipe's $model_from makes it): \
the first-pass models go into lattices, where there are some" >&2
    return
  fi
  for pair in $hires_data; do
    [[ ! -e $egs_dir/$(of_set "${pair%%=*}" "$set_data")/text || -e $egs_dir/${pair#*=}/feats.scp ]] \
      || problems+=("$egs_dir/${pair#*=}/feats.scp is not there; $model_from makes it, or give --hires-data")
  done
}

# graph_file: what a language model makes of a graph; with look-ahead it is composed with the rest while decoding
graph_file() { if [[ -n $lookahead ]]; then echo Gr.fst; else echo HCLG.fst; fi; }

# graph_in_recipe MODEL LM: in a directory of the acoustic model's
graph_in_recipe() {
  local graph=$egs_dir/$model_dir/graph_mdi_$1 lm
  [[ -n $model_dir && -n $lang ]] \
    || fail "--backend kaldi decodes with an acoustic model: give --model-dir and --lang"
  lm=$(absolute "$2") # the graph is another one if this is called in another directory
  make_once "$graph/$(graph_file)" from "$lm" by "$steps/make_graph_kaldi.sh" --cmd "$cmd" \
    --lang "$egs_dir/$lang" --model "$egs_dir/$model_dir" ${lookahead:+--lookahead "$egs_dir/$lookahead"} \
    --mkgraph-opts "$mkgraph_opts" "$lm" "$graph"
}

# decode_in_recipe MODEL SET: with the recipe's acoustic model and script, in a directory of that model's, as Kaldi wants
# it
decode_in_recipe() {
  local graph=$egs_dir/$model_dir/graph_mdi_$1 decoded=$egs_dir/$model_dir/decode_mdi_$1_$2 hires name
  hires=$(of_set "$2" "$hires_data")
  [[ -n $hires ]] || fail "--hires-data '$hires_data' names no data directory with features for the set $2"
  name=$(basename "${hires%_hires}")
  local ivectors=${ivectors//SET/$name} problems=()
  [[ -z $ivectors ]] || choose_one ivectors
  [[ ${#problems[@]} -eq 0 ]] || fail "${problems[0]}"
  make_once "$decoded/num_jobs" from "$graph/$(graph_file)" by "$steps/$decode_step" --nj "$nj" --cmd "$cmd" \
    --beam "$beam" --lattice-beam "$lattice_beam" --acwt "$acwt" --allow-pipes "$allow_pipes" --decode-script "$decode_script" \
    --decode-opts "$decode_opts${ivectors:+ --online-ivector-dir $ivectors}" "$graph" "$egs_dir/$hires" "$decoded"
  make_once "$exp/decode/$1/$2/num_jobs" from "$decoded/num_jobs" by \
    "$steps/link_lattices.sh" "$decoded" "$exp/decode/$1/$2"
}

# scoring_options: of the scoring step in a recipe, one per line: its own script, or the filters that this would use
scoring_options() {
  local name filter
  if [[ $backend == kaldi ]]; then
    printf '%s\n' --score-script "$score_script" --lang "$egs_dir/$lang" --model "$egs_dir/$model_dir"
    return
  fi
  for name in ref hyp; do
    filter=$egs_dir/local/wer_${name}_filter
    if [[ -x $filter ]]; then printf '%s\n' "--$name-filter" "$filter"; fi
  done
}
