# Print an optspec for argparse to handle cmd's options that are independent of any subcommand.
function __fish_trainyard_global_optspecs
    string join \n format= history= color= q/quiet v/verbose h/help V/version
end

function __fish_trainyard_needs_command
    # Figure out if the current invocation already has a command.
    set -l cmd (commandline -opc)
    set -e cmd[1]
    argparse -s (__fish_trainyard_global_optspecs) -- $cmd 2>/dev/null
    or return
    if set -q argv[1]
        # Also print the command, so this can be used to figure out what it is.
        echo $argv[1]
        return 1
    end
    return 0
end

function __fish_trainyard_using_subcommand
    set -l cmd (__fish_trainyard_needs_command)
    test -z "$cmd"
    and return 1
    contains -- $cmd[1] $argv
end

complete -c trainyard -n "__fish_trainyard_needs_command" -l format -d 'How results are printed' -r -f -a "table\t'For people'
json\t'For programs: one document with its schema'"
complete -c trainyard -n "__fish_trainyard_needs_command" -l history -d 'Where results are kept, or `off` [default: $TRAINYARD_HISTORY, or runs/history.db]' -r -F
complete -c trainyard -n "__fish_trainyard_needs_command" -l color -d 'When messages are coloured; NO_COLOR is respected' -r -f -a "auto\t'On a terminal'
always\t'Always'
never\t'Never'"
complete -c trainyard -n "__fish_trainyard_needs_command" -s q -l quiet -d 'Say nothing but results and errors; with -v, results in full'
complete -c trainyard -n "__fish_trainyard_needs_command" -s v -l verbose -d 'Show more: every plan on the front of time and cost, every row of a validation'
complete -c trainyard -n "__fish_trainyard_needs_command" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c trainyard -n "__fish_trainyard_needs_command" -s V -l version -d 'Print version'
complete -c trainyard -n "__fish_trainyard_needs_command" -f -a "train" -d 'Train on this machine: calibrate if needed, plan, simulate, run, and compare; a job, or a list of them'
complete -c trainyard -n "__fish_trainyard_needs_command" -f -a "plan" -d 'Recommend instances and a way to split the work, for a job or for a fleet of them that share a pool'
complete -c trainyard -n "__fish_trainyard_needs_command" -f -a "simulate" -d 'Simulate one step of a plan, its whole training, or a queue of jobs on a pool of instances'
complete -c trainyard -n "__fish_trainyard_needs_command" -f -a "explain" -d 'Explain where the step of a plan goes, or set two plans side by side'
complete -c trainyard -n "__fish_trainyard_needs_command" -f -a "report" -d 'Write a plan as one HTML page: the recommendation in words, plots, tables, and what it rests on'
complete -c trainyard -n "__fish_trainyard_needs_command" -f -a "what-if" -d 'Vary anything of a job or a plan and see what it changes'
complete -c trainyard -n "__fish_trainyard_needs_command" -f -a "export" -d 'Write a plan as launch files for another engine or service'
complete -c trainyard -n "__fish_trainyard_needs_command" -f -a "run" -d 'Run a plan on this machine'
complete -c trainyard -n "__fish_trainyard_needs_command" -f -a "compare" -d 'Compare what a plan predicted with what a run measured'
complete -c trainyard -n "__fish_trainyard_needs_command" -f -a "calibrate" -d 'Measure this machine and write its profile, or refit constants from measurements'
complete -c trainyard -n "__fish_trainyard_needs_command" -f -a "validate" -d 'Predict published measurements and show how far off that is'
complete -c trainyard -n "__fish_trainyard_needs_command" -f -a "serve" -d 'Serve the what-if page and its JSON API, on this machine unless told otherwise'
complete -c trainyard -n "__fish_trainyard_needs_command" -f -a "history" -d 'List, show, compare, tag, export and prune what was planned, simulated and run'
complete -c trainyard -n "__fish_trainyard_needs_command" -f -a "prices" -d 'Read what the AWS command line prints about an account, as prices and quotas that `plan` takes'
complete -c trainyard -n "__fish_trainyard_needs_command" -f -a "show" -d 'Show what the catalogs hold, with the source of every number'
complete -c trainyard -n "__fish_trainyard_needs_command" -f -a "schemas" -d 'Write the JSON Schemas of files and results, and the description of the server\'s API'
complete -c trainyard -n "__fish_trainyard_needs_command" -f -a "completions" -d 'Print completions for a shell'
complete -c trainyard -n "__fish_trainyard_needs_command" -f -a "man" -d 'Print the manual page, or write those of all commands'
complete -c trainyard -n "__fish_trainyard_needs_command" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c trainyard -n "__fish_trainyard_using_subcommand train" -l model -d 'Model of the catalog, see `trainyard show models`; or a file: Hugging Face\'s config.json, ONNX or TOML' -r
complete -c trainyard -n "__fish_trainyard_using_subcommand train" -l tokens -d 'Tokens in the data set, 10B or 10e9' -r
complete -c trainyard -n "__fish_trainyard_using_subcommand train" -l samples -d 'Samples in the data set' -r
complete -c trainyard -n "__fish_trainyard_using_subcommand train" -l lengths -d 'A file with the tokens of each sample, one number a line: they are packed into sequences [default: all alike]' -r -F
complete -c trainyard -n "__fish_trainyard_using_subcommand train" -l dataset -d 'How samples are stored: a data set of the catalog, see `trainyard show datasets`; `none`: they are there [default: that of the model]' -r
complete -c trainyard -n "__fish_trainyard_using_subcommand train" -l bytes-per-sample -d 'Bytes of a sample as stored, 110kB [default: those of the data set]' -r
complete -c trainyard -n "__fish_trainyard_using_subcommand train" -l storage -d 'Where samples are read from [default: chosen]' -r -f -a "s3-fastfile\t''
s3-pipe\t''
s3-file\t''
fsx-lustre\t''
ebs\t''
shared-storage\t''
nvme\t''
memory\t''"
complete -c trainyard -n "__fish_trainyard_using_subcommand train" -l global-batch -d 'Samples of an optimizer step' -r
complete -c trainyard -n "__fish_trainyard_using_subcommand train" -l epochs -d 'Passes over the data set' -r
complete -c trainyard -n "__fish_trainyard_using_subcommand train" -l steps -d 'Optimizer steps, instead of epochs' -r
complete -c trainyard -n "__fish_trainyard_using_subcommand train" -l seq-len -d 'Tokens of a sample, or the length that samples are packed or padded to; 8k is 8192 [default: that of the model]' -r
complete -c trainyard -n "__fish_trainyard_using_subcommand train" -l fine-tune -d 'Train trained weights further: all of them (full), adapters (lora), adapters beside weights in NF4 (qlora), or the last blocks (frozen); compares full, lora and qlora' -r -f -a "full\t''
lora\t''
qlora\t''
frozen\t''"
complete -c trainyard -n "__fish_trainyard_using_subcommand train" -l dpo -d 'Train on pairs of sequences, one of which is preferred (direct preference optimisation); the scores of the reference model come from a forward pass in every step (model, if no value is given) or of one before the first (precomputed)' -r -f -a "model\t''
precomputed\t''"
complete -c trainyard -n "__fish_trainyard_using_subcommand train" -l lora-rank -d 'Rank of the adapters of lora and qlora [default: 16]' -r
complete -c trainyard -n "__fish_trainyard_using_subcommand train" -l constants -d 'GPUs, links and stacks that override those of the catalog' -r -F
complete -c trainyard -n "__fish_trainyard_using_subcommand train" -l prices -d 'Prices that override those of the catalog; `trainyard show prices` and `trainyard prices import` write such a table' -r -F
complete -c trainyard -n "__fish_trainyard_using_subcommand train" -l max-simulations -d 'Stop after this many simulations and say how much better a plan could still be' -r
complete -c trainyard -n "__fish_trainyard_using_subcommand train" -l fix -d 'Hold a field of the plan, --fix parallel.tensor=8; may be repeated' -r
complete -c trainyard -n "__fish_trainyard_using_subcommand train" -l threads -d 'Processor threads of the search [default: all]' -r
complete -c trainyard -n "__fish_trainyard_using_subcommand train" -l on -d 'Where: `local`, or the profile of this machine' -r
complete -c trainyard -n "__fish_trainyard_using_subcommand train" -l data -d 'What to train on: a file, a folder, or `synthetic`' -r -F
complete -c trainyard -n "__fish_trainyard_using_subcommand train" -l tokenizer -d 'Makes tokens of text, which is read as bytes otherwise' -r -F
complete -c trainyard -n "__fish_trainyard_using_subcommand train" -l held-out -d 'What the model is evaluated on, instead of a part of the data' -r -F
complete -c trainyard -n "__fish_trainyard_using_subcommand train" -l device -d 'What computes [default: what the profile was measured on; cpu where there is none yet]' -r -f -a "cpu\t'Processor threads of this machine'
cuda\t'NVIDIA\'s GPUs of this machine, where the program was built with the feature cuda'
wgpu\t'GPUs of this machine through Vulkan, Metal or DirectX 12, where it was built with the feature wgpu'"
complete -c trainyard -n "__fish_trainyard_using_subcommand train" -l weights -d 'Weights to start from: a file of safetensors or torch.save (.bin, .pt, .pth), or a folder that transformers saved [default: random ones by the seed]' -r -F
complete -c trainyard -n "__fish_trainyard_using_subcommand train" -l seed -d 'Seed of first parameters and of the order of data' -r
complete -c trainyard -n "__fish_trainyard_using_subcommand train" -l out -d 'Folder for everything that the run writes [default: a new one under runs/]' -r -F
complete -c trainyard -n "__fish_trainyard_using_subcommand train" -l checkpoint-every -d 'Write a checkpoint after every so many steps, besides the one at the end' -r
complete -c trainyard -n "__fish_trainyard_using_subcommand train" -l keep -d 'How many checkpoints stay: the newest that are whole' -r
complete -c trainyard -n "__fish_trainyard_using_subcommand train" -l max-skipped -d 'How many steps in a row may be skipped because the loss or a gradient is not a number' -r
complete -c trainyard -n "__fish_trainyard_using_subcommand train" -l format -d 'How results are printed' -r -f -a "table\t'For people'
json\t'For programs: one document with its schema'"
complete -c trainyard -n "__fish_trainyard_using_subcommand train" -l history -d 'Where results are kept, or `off` [default: $TRAINYARD_HISTORY, or runs/history.db]' -r -F
complete -c trainyard -n "__fish_trainyard_using_subcommand train" -l color -d 'When messages are coloured; NO_COLOR is respected' -r -f -a "auto\t'On a terminal'
always\t'Always'
never\t'Never'"
complete -c trainyard -n "__fish_trainyard_using_subcommand train" -l recalibrate -d 'Measure this machine again'
complete -c trainyard -n "__fish_trainyard_using_subcommand train" -s q -l quiet -d 'Say nothing but results and errors; with -v, results in full'
complete -c trainyard -n "__fish_trainyard_using_subcommand train" -s v -l verbose -d 'Show more: every plan on the front of time and cost, every row of a validation'
complete -c trainyard -n "__fish_trainyard_using_subcommand train" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c trainyard -n "__fish_trainyard_using_subcommand train" -s V -l version -d 'Print version'
complete -c trainyard -n "__fish_trainyard_using_subcommand plan" -l model -d 'Model of the catalog, see `trainyard show models`; or a file: Hugging Face\'s config.json, ONNX or TOML' -r
complete -c trainyard -n "__fish_trainyard_using_subcommand plan" -l tokens -d 'Tokens in the data set, 10B or 10e9' -r
complete -c trainyard -n "__fish_trainyard_using_subcommand plan" -l samples -d 'Samples in the data set' -r
complete -c trainyard -n "__fish_trainyard_using_subcommand plan" -l lengths -d 'A file with the tokens of each sample, one number a line: they are packed into sequences [default: all alike]' -r -F
complete -c trainyard -n "__fish_trainyard_using_subcommand plan" -l dataset -d 'How samples are stored: a data set of the catalog, see `trainyard show datasets`; `none`: they are there [default: that of the model]' -r
complete -c trainyard -n "__fish_trainyard_using_subcommand plan" -l bytes-per-sample -d 'Bytes of a sample as stored, 110kB [default: those of the data set]' -r
complete -c trainyard -n "__fish_trainyard_using_subcommand plan" -l storage -d 'Where samples are read from [default: chosen]' -r -f -a "s3-fastfile\t''
s3-pipe\t''
s3-file\t''
fsx-lustre\t''
ebs\t''
shared-storage\t''
nvme\t''
memory\t''"
complete -c trainyard -n "__fish_trainyard_using_subcommand plan" -l global-batch -d 'Samples of an optimizer step' -r
complete -c trainyard -n "__fish_trainyard_using_subcommand plan" -l epochs -d 'Passes over the data set' -r
complete -c trainyard -n "__fish_trainyard_using_subcommand plan" -l steps -d 'Optimizer steps, instead of epochs' -r
complete -c trainyard -n "__fish_trainyard_using_subcommand plan" -l seq-len -d 'Tokens of a sample, or the length that samples are packed or padded to; 8k is 8192 [default: that of the model]' -r
complete -c trainyard -n "__fish_trainyard_using_subcommand plan" -l fine-tune -d 'Train trained weights further: all of them (full), adapters (lora), adapters beside weights in NF4 (qlora), or the last blocks (frozen); compares full, lora and qlora' -r -f -a "full\t''
lora\t''
qlora\t''
frozen\t''"
complete -c trainyard -n "__fish_trainyard_using_subcommand plan" -l dpo -d 'Train on pairs of sequences, one of which is preferred (direct preference optimisation); the scores of the reference model come from a forward pass in every step (model, if no value is given) or of one before the first (precomputed)' -r -f -a "model\t''
precomputed\t''"
complete -c trainyard -n "__fish_trainyard_using_subcommand plan" -l lora-rank -d 'Rank of the adapters of lora and qlora [default: 16]' -r
complete -c trainyard -n "__fish_trainyard_using_subcommand plan" -l constants -d 'GPUs, links and stacks that override those of the catalog' -r -F
complete -c trainyard -n "__fish_trainyard_using_subcommand plan" -l prices -d 'Prices that override those of the catalog; `trainyard show prices` and `trainyard prices import` write such a table' -r -F
complete -c trainyard -n "__fish_trainyard_using_subcommand plan" -l objective -d 'What is sought [default: cost]' -r -f -a "time\t''
cost\t''"
complete -c trainyard -n "__fish_trainyard_using_subcommand plan" -l deadline -d 'The longest training accepted, 3d' -r
complete -c trainyard -n "__fish_trainyard_using_subcommand plan" -l budget -d 'The most money accepted, in USD' -r
complete -c trainyard -n "__fish_trainyard_using_subcommand plan" -l instances -d 'Instance types, such as \'p3.*,p4d.24xlarge\'' -r
complete -c trainyard -n "__fish_trainyard_using_subcommand plan" -l max-instances -d 'The most instances [default: 16]' -r
complete -c trainyard -n "__fish_trainyard_using_subcommand plan" -l region -d 'AWS region [default: us-east-1]' -r
complete -c trainyard -n "__fish_trainyard_using_subcommand plan" -l pricing -d 'How instances are paid [default: on-demand]' -r -f -a "on-demand\t''
spot\t''
reserved\t''
reserved-3y\t''"
complete -c trainyard -n "__fish_trainyard_using_subcommand plan" -l service -d 'Who rents them out [default: ec2]' -r -f -a "ec2\t''
sagemaker\t''"
complete -c trainyard -n "__fish_trainyard_using_subcommand plan" -l transport -d 'Transport between machines [default: the usual one of each type]' -r -f -a "tcp\t''
tcp-pods\t''
efa\t''
efa-gpudirect\t''
infiniband\t''
roce\t''
omni-path\t''"
complete -c trainyard -n "__fish_trainyard_using_subcommand plan" -l stack -d 'Training framework, see `trainyard show stacks`; auto compares those that people use today [default: auto]' -r
complete -c trainyard -n "__fish_trainyard_using_subcommand plan" -l quotas -d 'What the account may rent at once, in place of the job\'s quotas; `trainyard prices import` writes such a file' -r -F
complete -c trainyard -n "__fish_trainyard_using_subcommand plan" -l memory-margin -d 'Part of each GPU\'s memory that plans leave free [default: 8%, or what the stack\'s peaks vary by]' -r
complete -c trainyard -n "__fish_trainyard_using_subcommand plan" -l max-simulations -d 'Stop after this many simulations and say how much better a plan could still be' -r
complete -c trainyard -n "__fish_trainyard_using_subcommand plan" -l fix -d 'Hold a field of the plan, --fix parallel.tensor=8; may be repeated' -r
complete -c trainyard -n "__fish_trainyard_using_subcommand plan" -l threads -d 'Processor threads of the search [default: all]' -r
complete -c trainyard -n "__fish_trainyard_using_subcommand plan" -l top -d 'How many clusters to show: the recommended one and the runners-up [default: 5]' -r
complete -c trainyard -n "__fish_trainyard_using_subcommand plan" -l point -d 'Take this point of the front of time against cost instead of the recommended plan' -r
complete -c trainyard -n "__fish_trainyard_using_subcommand plan" -l out -d 'Write the document to this file: a plan, or the plans and the schedule of a fleet' -r -F
complete -c trainyard -n "__fish_trainyard_using_subcommand plan" -l plot-theme -d 'Background of the plot: `auto` follows the reader\'s system (a PNG is light), `light` or `dark`' -r -f -a "auto\t'What the reader\'s system prefers; light in a PNG'
light\t'White'
dark\t'Nearly black'"
complete -c trainyard -n "__fish_trainyard_using_subcommand plan" -l plans -d 'Write a plan document for each job of a fleet into this folder' -r -F
complete -c trainyard -n "__fish_trainyard_using_subcommand plan" -l plot -d 'Draw time against cost of a job, or the schedule of a fleet' -r -F
complete -c trainyard -n "__fish_trainyard_using_subcommand plan" -l format -d 'How results are printed' -r -f -a "table\t'For people'
json\t'For programs: one document with its schema'"
complete -c trainyard -n "__fish_trainyard_using_subcommand plan" -l history -d 'Where results are kept, or `off` [default: $TRAINYARD_HISTORY, or runs/history.db]' -r -F
complete -c trainyard -n "__fish_trainyard_using_subcommand plan" -l color -d 'When messages are coloured; NO_COLOR is respected' -r -f -a "auto\t'On a terminal'
always\t'Always'
never\t'Never'"
complete -c trainyard -n "__fish_trainyard_using_subcommand plan" -s q -l quiet -d 'Say nothing but results and errors; with -v, results in full'
complete -c trainyard -n "__fish_trainyard_using_subcommand plan" -s v -l verbose -d 'Show more: every plan on the front of time and cost, every row of a validation'
complete -c trainyard -n "__fish_trainyard_using_subcommand plan" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c trainyard -n "__fish_trainyard_using_subcommand plan" -s V -l version -d 'Print version'
complete -c trainyard -n "__fish_trainyard_using_subcommand simulate" -l trace -d 'Write the step of a plan as a trace in the PyTorch profiler\'s form: all ranks in one file for ui.perfetto.dev, or a file for each in a folder (DIR/) for Holistic Trace Analysis; .gz packs it' -r -F
complete -c trainyard -n "__fish_trainyard_using_subcommand simulate" -l chakra -d 'Write the step of a plan as Chakra execution traces, a file for each rank, for ASTRA-sim and others' -r -F
complete -c trainyard -n "__fish_trainyard_using_subcommand simulate" -l on -d 'Machines that execution traces are simulated on, see `trainyard show instances`' -r
complete -c trainyard -n "__fish_trainyard_using_subcommand simulate" -l instances -d 'How many of them [default: as many as the ranks need]' -r
complete -c trainyard -n "__fish_trainyard_using_subcommand simulate" -l plot-theme -d 'Background of the plot: `auto` follows the reader\'s system (a PNG is light), `light` or `dark`' -r -f -a "auto\t'What the reader\'s system prefers; light in a PNG'
light\t'White'
dark\t'Nearly black'"
complete -c trainyard -n "__fish_trainyard_using_subcommand simulate" -l constants -d 'GPUs, links and stacks that override those of the catalog; those of the plan if left out' -r -F
complete -c trainyard -n "__fish_trainyard_using_subcommand simulate" -l spread -d 'Let devices differ: standard deviation of their speed as a fraction, drawn with --seed' -r
complete -c trainyard -n "__fish_trainyard_using_subcommand simulate" -l seed -d 'Which devices are slow, how the courses of a campaign go, or which jobs of a queue take longer than expected' -r
complete -c trainyard -n "__fish_trainyard_using_subcommand simulate" -l runs -d 'Possible courses of the campaign' -r
complete -c trainyard -n "__fish_trainyard_using_subcommand simulate" -l plot -d 'Draw it: a step stage by stage, the spread of a campaign, or the schedule of a queue' -r -F
complete -c trainyard -n "__fish_trainyard_using_subcommand simulate" -l format -d 'How results are printed' -r -f -a "table\t'For people'
json\t'For programs: one document with its schema'"
complete -c trainyard -n "__fish_trainyard_using_subcommand simulate" -l history -d 'Where results are kept, or `off` [default: $TRAINYARD_HISTORY, or runs/history.db]' -r -F
complete -c trainyard -n "__fish_trainyard_using_subcommand simulate" -l color -d 'When messages are coloured; NO_COLOR is respected' -r -f -a "auto\t'On a terminal'
always\t'Always'
never\t'Never'"
complete -c trainyard -n "__fish_trainyard_using_subcommand simulate" -l unfold -d 'Simulate every rank by itself instead of one for all that must behave alike: slower, the same result'
complete -c trainyard -n "__fish_trainyard_using_subcommand simulate" -l campaign -d 'Simulate the whole training: start-up, checkpoints, interruptions, restarts, and what they cost'
complete -c trainyard -n "__fish_trainyard_using_subcommand simulate" -s q -l quiet -d 'Say nothing but results and errors; with -v, results in full'
complete -c trainyard -n "__fish_trainyard_using_subcommand simulate" -s v -l verbose -d 'Show more: every plan on the front of time and cost, every row of a validation'
complete -c trainyard -n "__fish_trainyard_using_subcommand simulate" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c trainyard -n "__fish_trainyard_using_subcommand simulate" -s V -l version -d 'Print version'
complete -c trainyard -n "__fish_trainyard_using_subcommand explain" -l against -d 'Plan document to compare it with: of the same model, on any machines' -r -F
complete -c trainyard -n "__fish_trainyard_using_subcommand explain" -l plot-theme -d 'Background of the plot: `auto` follows the reader\'s system (a PNG is light), `light` or `dark`' -r -f -a "auto\t'What the reader\'s system prefers; light in a PNG'
light\t'White'
dark\t'Nearly black'"
complete -c trainyard -n "__fish_trainyard_using_subcommand explain" -l plot -d 'Draw the critical path and the memory of each stage; of two plans their paths' -r -F
complete -c trainyard -n "__fish_trainyard_using_subcommand explain" -l format -d 'How results are printed' -r -f -a "table\t'For people'
json\t'For programs: one document with its schema'"
complete -c trainyard -n "__fish_trainyard_using_subcommand explain" -l history -d 'Where results are kept, or `off` [default: $TRAINYARD_HISTORY, or runs/history.db]' -r -F
complete -c trainyard -n "__fish_trainyard_using_subcommand explain" -l color -d 'When messages are coloured; NO_COLOR is respected' -r -f -a "auto\t'On a terminal'
always\t'Always'
never\t'Never'"
complete -c trainyard -n "__fish_trainyard_using_subcommand explain" -s q -l quiet -d 'Say nothing but results and errors; with -v, results in full'
complete -c trainyard -n "__fish_trainyard_using_subcommand explain" -s v -l verbose -d 'Show more: every plan on the front of time and cost, every row of a validation'
complete -c trainyard -n "__fish_trainyard_using_subcommand explain" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c trainyard -n "__fish_trainyard_using_subcommand explain" -s V -l version -d 'Print version'
complete -c trainyard -n "__fish_trainyard_using_subcommand report" -l out -d 'Write the page to this file [default: standard output]' -r -F
complete -c trainyard -n "__fish_trainyard_using_subcommand report" -l plots -d 'Write every plot of the report into this folder too' -r -F
complete -c trainyard -n "__fish_trainyard_using_subcommand report" -l plot-format -d 'Format of these plots' -r -f -a "svg\t'Lines and words, for pages'
png\t'Pixels, for what cannot show SVG'"
complete -c trainyard -n "__fish_trainyard_using_subcommand report" -l plot-theme -d 'Background of these plots: `auto` follows the reader\'s system (a PNG is light), `light` or `dark`' -r -f -a "auto\t'What the reader\'s system prefers; light in a PNG'
light\t'White'
dark\t'Nearly black'"
complete -c trainyard -n "__fish_trainyard_using_subcommand report" -l runs -d 'Possible courses of the whole training that are drawn' -r
complete -c trainyard -n "__fish_trainyard_using_subcommand report" -l seed -d 'Seed of the random draws' -r
complete -c trainyard -n "__fish_trainyard_using_subcommand report" -l format -d 'How results are printed' -r -f -a "table\t'For people'
json\t'For programs: one document with its schema'"
complete -c trainyard -n "__fish_trainyard_using_subcommand report" -l history -d 'Where results are kept, or `off` [default: $TRAINYARD_HISTORY, or runs/history.db]' -r -F
complete -c trainyard -n "__fish_trainyard_using_subcommand report" -l color -d 'When messages are coloured; NO_COLOR is respected' -r -f -a "auto\t'On a terminal'
always\t'Always'
never\t'Never'"
complete -c trainyard -n "__fish_trainyard_using_subcommand report" -s q -l quiet -d 'Say nothing but results and errors; with -v, results in full'
complete -c trainyard -n "__fish_trainyard_using_subcommand report" -s v -l verbose -d 'Show more: every plan on the front of time and cost, every row of a validation'
complete -c trainyard -n "__fish_trainyard_using_subcommand report" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c trainyard -n "__fish_trainyard_using_subcommand report" -s V -l version -d 'Print version'
complete -c trainyard -n "__fish_trainyard_using_subcommand what-if" -l model -d 'Model of the catalog, see `trainyard show models`; or a file: Hugging Face\'s config.json, ONNX or TOML' -r
complete -c trainyard -n "__fish_trainyard_using_subcommand what-if" -l tokens -d 'Tokens in the data set, 10B or 10e9' -r
complete -c trainyard -n "__fish_trainyard_using_subcommand what-if" -l samples -d 'Samples in the data set' -r
complete -c trainyard -n "__fish_trainyard_using_subcommand what-if" -l lengths -d 'A file with the tokens of each sample, one number a line: they are packed into sequences [default: all alike]' -r -F
complete -c trainyard -n "__fish_trainyard_using_subcommand what-if" -l dataset -d 'How samples are stored: a data set of the catalog, see `trainyard show datasets`; `none`: they are there [default: that of the model]' -r
complete -c trainyard -n "__fish_trainyard_using_subcommand what-if" -l bytes-per-sample -d 'Bytes of a sample as stored, 110kB [default: those of the data set]' -r
complete -c trainyard -n "__fish_trainyard_using_subcommand what-if" -l storage -d 'Where samples are read from [default: chosen]' -r -f -a "s3-fastfile\t''
s3-pipe\t''
s3-file\t''
fsx-lustre\t''
ebs\t''
shared-storage\t''
nvme\t''
memory\t''"
complete -c trainyard -n "__fish_trainyard_using_subcommand what-if" -l global-batch -d 'Samples of an optimizer step' -r
complete -c trainyard -n "__fish_trainyard_using_subcommand what-if" -l epochs -d 'Passes over the data set' -r
complete -c trainyard -n "__fish_trainyard_using_subcommand what-if" -l steps -d 'Optimizer steps, instead of epochs' -r
complete -c trainyard -n "__fish_trainyard_using_subcommand what-if" -l seq-len -d 'Tokens of a sample, or the length that samples are packed or padded to; 8k is 8192 [default: that of the model]' -r
complete -c trainyard -n "__fish_trainyard_using_subcommand what-if" -l fine-tune -d 'Train trained weights further: all of them (full), adapters (lora), adapters beside weights in NF4 (qlora), or the last blocks (frozen); compares full, lora and qlora' -r -f -a "full\t''
lora\t''
qlora\t''
frozen\t''"
complete -c trainyard -n "__fish_trainyard_using_subcommand what-if" -l dpo -d 'Train on pairs of sequences, one of which is preferred (direct preference optimisation); the scores of the reference model come from a forward pass in every step (model, if no value is given) or of one before the first (precomputed)' -r -f -a "model\t''
precomputed\t''"
complete -c trainyard -n "__fish_trainyard_using_subcommand what-if" -l lora-rank -d 'Rank of the adapters of lora and qlora [default: 16]' -r
complete -c trainyard -n "__fish_trainyard_using_subcommand what-if" -l constants -d 'GPUs, links and stacks that override those of the catalog' -r -F
complete -c trainyard -n "__fish_trainyard_using_subcommand what-if" -l prices -d 'Prices that override those of the catalog; `trainyard show prices` and `trainyard prices import` write such a table' -r -F
complete -c trainyard -n "__fish_trainyard_using_subcommand what-if" -l objective -d 'What is sought [default: cost]' -r -f -a "time\t''
cost\t''"
complete -c trainyard -n "__fish_trainyard_using_subcommand what-if" -l deadline -d 'The longest training accepted, 3d' -r
complete -c trainyard -n "__fish_trainyard_using_subcommand what-if" -l budget -d 'The most money accepted, in USD' -r
complete -c trainyard -n "__fish_trainyard_using_subcommand what-if" -l instances -d 'Instance types, such as \'p3.*,p4d.24xlarge\'' -r
complete -c trainyard -n "__fish_trainyard_using_subcommand what-if" -l max-instances -d 'The most instances [default: 16]' -r
complete -c trainyard -n "__fish_trainyard_using_subcommand what-if" -l region -d 'AWS region [default: us-east-1]' -r
complete -c trainyard -n "__fish_trainyard_using_subcommand what-if" -l pricing -d 'How instances are paid [default: on-demand]' -r -f -a "on-demand\t''
spot\t''
reserved\t''
reserved-3y\t''"
complete -c trainyard -n "__fish_trainyard_using_subcommand what-if" -l service -d 'Who rents them out [default: ec2]' -r -f -a "ec2\t''
sagemaker\t''"
complete -c trainyard -n "__fish_trainyard_using_subcommand what-if" -l transport -d 'Transport between machines [default: the usual one of each type]' -r -f -a "tcp\t''
tcp-pods\t''
efa\t''
efa-gpudirect\t''
infiniband\t''
roce\t''
omni-path\t''"
complete -c trainyard -n "__fish_trainyard_using_subcommand what-if" -l stack -d 'Training framework, see `trainyard show stacks`; auto compares those that people use today [default: auto]' -r
complete -c trainyard -n "__fish_trainyard_using_subcommand what-if" -l quotas -d 'What the account may rent at once, in place of the job\'s quotas; `trainyard prices import` writes such a file' -r -F
complete -c trainyard -n "__fish_trainyard_using_subcommand what-if" -l memory-margin -d 'Part of each GPU\'s memory that plans leave free [default: 8%, or what the stack\'s peaks vary by]' -r
complete -c trainyard -n "__fish_trainyard_using_subcommand what-if" -l max-simulations -d 'Stop after this many simulations and say how much better a plan could still be' -r
complete -c trainyard -n "__fish_trainyard_using_subcommand what-if" -l fix -d 'Hold a field of the plan, --fix parallel.tensor=8; may be repeated' -r
complete -c trainyard -n "__fish_trainyard_using_subcommand what-if" -l threads -d 'Processor threads of the search [default: all]' -r
complete -c trainyard -n "__fish_trainyard_using_subcommand what-if" -l vary -d 'What varies: values with commas, ranges, factors on the present value; once or twice' -r
complete -c trainyard -n "__fish_trainyard_using_subcommand what-if" -l plot-theme -d 'Background of the plot: `auto` follows the reader\'s system (a PNG is light), `light` or `dark`' -r -f -a "auto\t'What the reader\'s system prefers; light in a PNG'
light\t'White'
dark\t'Nearly black'"
complete -c trainyard -n "__fish_trainyard_using_subcommand what-if" -l csv -d 'Write the cases as CSV' -r -F
complete -c trainyard -n "__fish_trainyard_using_subcommand what-if" -l out -d 'Write the what-if document to this file' -r -F
complete -c trainyard -n "__fish_trainyard_using_subcommand what-if" -l plot -d 'Draw it: scaling, throughput over batch, time and cost, or the tornado' -r -F
complete -c trainyard -n "__fish_trainyard_using_subcommand what-if" -l format -d 'How results are printed' -r -f -a "table\t'For people'
json\t'For programs: one document with its schema'"
complete -c trainyard -n "__fish_trainyard_using_subcommand what-if" -l history -d 'Where results are kept, or `off` [default: $TRAINYARD_HISTORY, or runs/history.db]' -r -F
complete -c trainyard -n "__fish_trainyard_using_subcommand what-if" -l color -d 'When messages are coloured; NO_COLOR is respected' -r -f -a "auto\t'On a terminal'
always\t'Always'
never\t'Never'"
complete -c trainyard -n "__fish_trainyard_using_subcommand what-if" -l hold -d 'Hold the plan that is best for the unvaried job, instead of seeking the best one each time'
complete -c trainyard -n "__fish_trainyard_using_subcommand what-if" -l tornado -d 'Vary each assumption behind the plan by its own uncertainty, and show which ones matter'
complete -c trainyard -n "__fish_trainyard_using_subcommand what-if" -s q -l quiet -d 'Say nothing but results and errors; with -v, results in full'
complete -c trainyard -n "__fish_trainyard_using_subcommand what-if" -s v -l verbose -d 'Show more: every plan on the front of time and cost, every row of a validation'
complete -c trainyard -n "__fish_trainyard_using_subcommand what-if" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c trainyard -n "__fish_trainyard_using_subcommand what-if" -s V -l version -d 'Print version'
complete -c trainyard -n "__fish_trainyard_using_subcommand export" -l to -d 'What the files are for' -r -f -a "sagemaker\t''
torchrun\t''
deepspeed\t''
megatron\t''
accelerate\t''
slurm\t''
skypilot\t''
kubernetes\t''"
complete -c trainyard -n "__fish_trainyard_using_subcommand export" -l out -d 'Write the files into this folder instead of printing them' -r -F
complete -c trainyard -n "__fish_trainyard_using_subcommand export" -l script -d 'Training script' -r
complete -c trainyard -n "__fish_trainyard_using_subcommand export" -l image -d 'Container image' -r
complete -c trainyard -n "__fish_trainyard_using_subcommand export" -l role -d 'IAM role that SageMaker takes on' -r
complete -c trainyard -n "__fish_trainyard_using_subcommand export" -l data -d 'Where the data is: a path, a bucket, or a claim of Kubernetes' -r
complete -c trainyard -n "__fish_trainyard_using_subcommand export" -l results -d 'Where checkpoints and results go, in the same form' -r
complete -c trainyard -n "__fish_trainyard_using_subcommand export" -l learning-rate -d 'Peak learning rate, before that of the job' -r
complete -c trainyard -n "__fish_trainyard_using_subcommand export" -l weights -d 'Weights to start from: a folder, or a name on the Hugging Face Hub' -r
complete -c trainyard -n "__fish_trainyard_using_subcommand export" -l format -d 'How results are printed' -r -f -a "table\t'For people'
json\t'For programs: one document with its schema'"
complete -c trainyard -n "__fish_trainyard_using_subcommand export" -l history -d 'Where results are kept, or `off` [default: $TRAINYARD_HISTORY, or runs/history.db]' -r -F
complete -c trainyard -n "__fish_trainyard_using_subcommand export" -l color -d 'When messages are coloured; NO_COLOR is respected' -r -f -a "auto\t'On a terminal'
always\t'Always'
never\t'Never'"
complete -c trainyard -n "__fish_trainyard_using_subcommand export" -s q -l quiet -d 'Say nothing but results and errors; with -v, results in full'
complete -c trainyard -n "__fish_trainyard_using_subcommand export" -s v -l verbose -d 'Show more: every plan on the front of time and cost, every row of a validation'
complete -c trainyard -n "__fish_trainyard_using_subcommand export" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c trainyard -n "__fish_trainyard_using_subcommand export" -s V -l version -d 'Print version'
complete -c trainyard -n "__fish_trainyard_using_subcommand run" -l data -d 'What to train on: a file, a folder, or `synthetic`' -r -F
complete -c trainyard -n "__fish_trainyard_using_subcommand run" -l tokenizer -d 'Makes tokens of text, which is read as bytes otherwise' -r -F
complete -c trainyard -n "__fish_trainyard_using_subcommand run" -l held-out -d 'What the model is evaluated on, instead of a part of the data' -r -F
complete -c trainyard -n "__fish_trainyard_using_subcommand run" -l steps -d 'Stop after so many optimizer steps, resumed ones included; the learning rate decays over those of the plan [default: those of the plan]' -r
complete -c trainyard -n "__fish_trainyard_using_subcommand run" -l checkpoint -d 'Folder of checkpoints or of a run, or a checkpoint to resume from [default: `checkpoint` in the run\'s folder]' -r -F
complete -c trainyard -n "__fish_trainyard_using_subcommand run" -l launcher -d 'Who starts the ranks' -r -f -a "threads\t'This process: they are its threads'
mpi\t'`mpirun`, Slurm or another launcher of MPI processes, on one host or many'"
complete -c trainyard -n "__fish_trainyard_using_subcommand run" -l heartbeat-timeout -d 'With --launcher mpi: how long a process may give no sign of life before the job ends [default: 20]' -r
complete -c trainyard -n "__fish_trainyard_using_subcommand run" -l weights -d 'Weights to start from: a file of safetensors or torch.save (.bin, .pt, .pth), or a folder that transformers saved [default: random ones by the seed]' -r -F
complete -c trainyard -n "__fish_trainyard_using_subcommand run" -l device -d 'What computes [default: what the profile of the plan was measured on, else cpu]' -r -f -a "cpu\t'Processor threads of this machine'
cuda\t'NVIDIA\'s GPUs of this machine, where the program was built with the feature cuda'
wgpu\t'GPUs of this machine through Vulkan, Metal or DirectX 12, where it was built with the feature wgpu'"
complete -c trainyard -n "__fish_trainyard_using_subcommand run" -l threads -d 'Processor threads that the ranks share [default: all]' -r
complete -c trainyard -n "__fish_trainyard_using_subcommand run" -l seed -d 'Seed of first parameters and of the order of data' -r
complete -c trainyard -n "__fish_trainyard_using_subcommand run" -l out -d 'Folder for everything that the run writes [default: a new one under runs/]' -r -F
complete -c trainyard -n "__fish_trainyard_using_subcommand run" -l checkpoint-every -d 'Write a checkpoint after every so many steps, besides the one at the end' -r
complete -c trainyard -n "__fish_trainyard_using_subcommand run" -l keep -d 'How many checkpoints stay: the newest that are whole' -r
complete -c trainyard -n "__fish_trainyard_using_subcommand run" -l max-skipped -d 'How many steps in a row may be skipped because the loss or a gradient is not a number' -r
complete -c trainyard -n "__fish_trainyard_using_subcommand run" -l format -d 'How results are printed' -r -f -a "table\t'For people'
json\t'For programs: one document with its schema'"
complete -c trainyard -n "__fish_trainyard_using_subcommand run" -l history -d 'Where results are kept, or `off` [default: $TRAINYARD_HISTORY, or runs/history.db]' -r -F
complete -c trainyard -n "__fish_trainyard_using_subcommand run" -l color -d 'When messages are coloured; NO_COLOR is respected' -r -f -a "auto\t'On a terminal'
always\t'Always'
never\t'Never'"
complete -c trainyard -n "__fish_trainyard_using_subcommand run" -l resume -d 'Go on from the newest checkpoint, or from the one that is named'
complete -c trainyard -n "__fish_trainyard_using_subcommand run" -l until-input-ends -d 'Stop as on Ctrl-C when the standard input ends: so lists of jobs stop theirs, also when they are killed'
complete -c trainyard -n "__fish_trainyard_using_subcommand run" -s q -l quiet -d 'Say nothing but results and errors; with -v, results in full'
complete -c trainyard -n "__fish_trainyard_using_subcommand run" -s v -l verbose -d 'Show more: every plan on the front of time and cost, every row of a validation'
complete -c trainyard -n "__fish_trainyard_using_subcommand run" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c trainyard -n "__fish_trainyard_using_subcommand run" -s V -l version -d 'Print version'
complete -c trainyard -n "__fish_trainyard_using_subcommand compare" -l plot-theme -d 'Background of the plot: `auto` follows the reader\'s system (a PNG is light), `light` or `dark`' -r -f -a "auto\t'What the reader\'s system prefers; light in a PNG'
light\t'White'
dark\t'Nearly black'"
complete -c trainyard -n "__fish_trainyard_using_subcommand compare" -l plot -d 'Draw predicted beside measured phase by phase' -r -F
complete -c trainyard -n "__fish_trainyard_using_subcommand compare" -l format -d 'How results are printed' -r -f -a "table\t'For people'
json\t'For programs: one document with its schema'"
complete -c trainyard -n "__fish_trainyard_using_subcommand compare" -l history -d 'Where results are kept, or `off` [default: $TRAINYARD_HISTORY, or runs/history.db]' -r -F
complete -c trainyard -n "__fish_trainyard_using_subcommand compare" -l color -d 'When messages are coloured; NO_COLOR is respected' -r -f -a "auto\t'On a terminal'
always\t'Always'
never\t'Never'"
complete -c trainyard -n "__fish_trainyard_using_subcommand compare" -s q -l quiet -d 'Say nothing but results and errors; with -v, results in full'
complete -c trainyard -n "__fish_trainyard_using_subcommand compare" -s v -l verbose -d 'Show more: every plan on the front of time and cost, every row of a validation'
complete -c trainyard -n "__fish_trainyard_using_subcommand compare" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c trainyard -n "__fish_trainyard_using_subcommand compare" -s V -l version -d 'Print version'
complete -c trainyard -n "__fish_trainyard_using_subcommand calibrate" -l device -d 'What is measured' -r -f -a "cpu\t'Processor threads of this machine'
cuda\t'NVIDIA\'s GPUs of this machine, where the program was built with the feature cuda'
wgpu\t'GPUs of this machine through Vulkan, Metal or DirectX 12, where it was built with the feature wgpu'"
complete -c trainyard -n "__fish_trainyard_using_subcommand calibrate" -l launcher -d 'Who starts the ranks that are measured; with mpi, one per process: the profile is that of all hosts together' -r -f -a "threads\t'This process: they are its threads'
mpi\t'`mpirun`, Slurm or another launcher of MPI processes, on one host or many'"
complete -c trainyard -n "__fish_trainyard_using_subcommand calibrate" -l out -d 'Where the profile goes [default: $TRAINYARD_PROFILE, or runs/local-profile.toml, with --device cuda runs/local-cuda-profile.toml, with wgpu runs/local-wgpu-profile.toml; constants: runs/constants.toml]' -r -F
complete -c trainyard -n "__fish_trainyard_using_subcommand calibrate" -l from -d 'Instead of measuring: refit constants from a table of step times or of collectives, such as `validate` reads, from the output of nccl-tests, or from a trace of the PyTorch profiler (.json or .json.gz); or correct this machine\'s profile by runs: a measurement.json, the folder of a run, or a folder of such folders' -r -F
complete -c trainyard -n "__fish_trainyard_using_subcommand calibrate" -l constants -d 'Constants from which the fit starts, in place of those of the catalog' -r -F
complete -c trainyard -n "__fish_trainyard_using_subcommand calibrate" -l instance -d 'Machine type that collectives were measured on, or the file of your own cluster (.toml), where the measurements do not say it or hold others too' -r
complete -c trainyard -n "__fish_trainyard_using_subcommand calibrate" -l stack -d 'Stack whose constants a trace shows [default: pytorch]' -r
complete -c trainyard -n "__fish_trainyard_using_subcommand calibrate" -l profile -d 'Profile that runs correct [default: $TRAINYARD_PROFILE, or runs/local-profile.toml]' -r -F
complete -c trainyard -n "__fish_trainyard_using_subcommand calibrate" -l format -d 'How results are printed' -r -f -a "table\t'For people'
json\t'For programs: one document with its schema'"
complete -c trainyard -n "__fish_trainyard_using_subcommand calibrate" -l history -d 'Where results are kept, or `off` [default: $TRAINYARD_HISTORY, or runs/history.db]' -r -F
complete -c trainyard -n "__fish_trainyard_using_subcommand calibrate" -l color -d 'When messages are coloured; NO_COLOR is respected' -r -f -a "auto\t'On a terminal'
always\t'Always'
never\t'Never'"
complete -c trainyard -n "__fish_trainyard_using_subcommand calibrate" -s q -l quiet -d 'Say nothing but results and errors; with -v, results in full'
complete -c trainyard -n "__fish_trainyard_using_subcommand calibrate" -s v -l verbose -d 'Show more: every plan on the front of time and cost, every row of a validation'
complete -c trainyard -n "__fish_trainyard_using_subcommand calibrate" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c trainyard -n "__fish_trainyard_using_subcommand calibrate" -s V -l version -d 'Print version'
complete -c trainyard -n "__fish_trainyard_using_subcommand validate" -l plot-theme -d 'Background of the plot: `auto` follows the reader\'s system (a PNG is light), `light` or `dark`' -r -f -a "auto\t'What the reader\'s system prefers; light in a PNG'
light\t'White'
dark\t'Nearly black'"
complete -c trainyard -n "__fish_trainyard_using_subcommand validate" -l constants -d 'GPUs, links and stacks that override those of the catalog' -r -F
complete -c trainyard -n "__fish_trainyard_using_subcommand validate" -l plot -d 'Draw predicted against measured; of collectives also bandwidth against message size' -r -F
complete -c trainyard -n "__fish_trainyard_using_subcommand validate" -l format -d 'How results are printed' -r -f -a "table\t'For people'
json\t'For programs: one document with its schema'"
complete -c trainyard -n "__fish_trainyard_using_subcommand validate" -l history -d 'Where results are kept, or `off` [default: $TRAINYARD_HISTORY, or runs/history.db]' -r -F
complete -c trainyard -n "__fish_trainyard_using_subcommand validate" -l color -d 'When messages are coloured; NO_COLOR is respected' -r -f -a "auto\t'On a terminal'
always\t'Always'
never\t'Never'"
complete -c trainyard -n "__fish_trainyard_using_subcommand validate" -s q -l quiet -d 'Say nothing but results and errors; with -v, results in full'
complete -c trainyard -n "__fish_trainyard_using_subcommand validate" -s v -l verbose -d 'Show more: every plan on the front of time and cost, every row of a validation'
complete -c trainyard -n "__fish_trainyard_using_subcommand validate" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c trainyard -n "__fish_trainyard_using_subcommand validate" -s V -l version -d 'Print version'
complete -c trainyard -n "__fish_trainyard_using_subcommand serve" -l port -d 'Port; 0 for any that is free' -r
complete -c trainyard -n "__fish_trainyard_using_subcommand serve" -l listen -d 'Address to listen on; a token is demanded where other machines reach it' -r
complete -c trainyard -n "__fish_trainyard_using_subcommand serve" -l token -d 'What clients of the API must show [default: $TRAINYARD_TOKEN, which no list of processes shows]' -r
complete -c trainyard -n "__fish_trainyard_using_subcommand serve" -l threads -d 'Processor threads of the searches [default: all]' -r
complete -c trainyard -n "__fish_trainyard_using_subcommand serve" -l format -d 'How results are printed' -r -f -a "table\t'For people'
json\t'For programs: one document with its schema'"
complete -c trainyard -n "__fish_trainyard_using_subcommand serve" -l history -d 'Where results are kept, or `off` [default: $TRAINYARD_HISTORY, or runs/history.db]' -r -F
complete -c trainyard -n "__fish_trainyard_using_subcommand serve" -l color -d 'When messages are coloured; NO_COLOR is respected' -r -f -a "auto\t'On a terminal'
always\t'Always'
never\t'Never'"
complete -c trainyard -n "__fish_trainyard_using_subcommand serve" -s q -l quiet -d 'Say nothing but results and errors; with -v, results in full'
complete -c trainyard -n "__fish_trainyard_using_subcommand serve" -s v -l verbose -d 'Show more: every plan on the front of time and cost, every row of a validation'
complete -c trainyard -n "__fish_trainyard_using_subcommand serve" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c trainyard -n "__fish_trainyard_using_subcommand serve" -s V -l version -d 'Print version'
complete -c trainyard -n "__fish_trainyard_using_subcommand history; and not __fish_seen_subcommand_from list show compare tag note export prune help" -l format -d 'How results are printed' -r -f -a "table\t'For people'
json\t'For programs: one document with its schema'"
complete -c trainyard -n "__fish_trainyard_using_subcommand history; and not __fish_seen_subcommand_from list show compare tag note export prune help" -l history -d 'Where results are kept, or `off` [default: $TRAINYARD_HISTORY, or runs/history.db]' -r -F
complete -c trainyard -n "__fish_trainyard_using_subcommand history; and not __fish_seen_subcommand_from list show compare tag note export prune help" -l color -d 'When messages are coloured; NO_COLOR is respected' -r -f -a "auto\t'On a terminal'
always\t'Always'
never\t'Never'"
complete -c trainyard -n "__fish_trainyard_using_subcommand history; and not __fish_seen_subcommand_from list show compare tag note export prune help" -s q -l quiet -d 'Say nothing but results and errors; with -v, results in full'
complete -c trainyard -n "__fish_trainyard_using_subcommand history; and not __fish_seen_subcommand_from list show compare tag note export prune help" -s v -l verbose -d 'Show more: every plan on the front of time and cost, every row of a validation'
complete -c trainyard -n "__fish_trainyard_using_subcommand history; and not __fish_seen_subcommand_from list show compare tag note export prune help" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c trainyard -n "__fish_trainyard_using_subcommand history; and not __fish_seen_subcommand_from list show compare tag note export prune help" -s V -l version -d 'Print version'
complete -c trainyard -n "__fish_trainyard_using_subcommand history; and not __fish_seen_subcommand_from list show compare tag note export prune help" -f -a "list" -d 'List what is kept, the newest first'
complete -c trainyard -n "__fish_trainyard_using_subcommand history; and not __fish_seen_subcommand_from list show compare tag note export prune help" -f -a "show" -d 'Show an entry, and what its command printed'
complete -c trainyard -n "__fish_trainyard_using_subcommand history; and not __fish_seen_subcommand_from list show compare tag note export prune help" -f -a "compare" -d 'Set two entries side by side'
complete -c trainyard -n "__fish_trainyard_using_subcommand history; and not __fish_seen_subcommand_from list show compare tag note export prune help" -f -a "tag" -d 'Give an entry tags, or take them away'
complete -c trainyard -n "__fish_trainyard_using_subcommand history; and not __fish_seen_subcommand_from list show compare tag note export prune help" -f -a "note" -d 'Say something of an entry'
complete -c trainyard -n "__fish_trainyard_using_subcommand history; and not __fish_seen_subcommand_from list show compare tag note export prune help" -f -a "export" -d 'Write documents into files, where other commands read them'
complete -c trainyard -n "__fish_trainyard_using_subcommand history; and not __fish_seen_subcommand_from list show compare tag note export prune help" -f -a "prune" -d 'Remove old entries; those with tags stay'
complete -c trainyard -n "__fish_trainyard_using_subcommand history; and not __fish_seen_subcommand_from list show compare tag note export prune help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c trainyard -n "__fish_trainyard_using_subcommand history; and __fish_seen_subcommand_from list" -l kind -d 'Only entries of this kind' -r -f -a "plan\t''
simulation\t''
what-if\t''
run\t''"
complete -c trainyard -n "__fish_trainyard_using_subcommand history; and __fish_seen_subcommand_from list" -l model -d 'Only entries of this model, or of models like \'gpt*\'' -r
complete -c trainyard -n "__fish_trainyard_using_subcommand history; and __fish_seen_subcommand_from list" -l tag -d 'Only entries with this tag; may be repeated' -r
complete -c trainyard -n "__fish_trainyard_using_subcommand history; and __fish_seen_subcommand_from list" -l since -d 'Only entries from then on' -r
complete -c trainyard -n "__fish_trainyard_using_subcommand history; and __fish_seen_subcommand_from list" -l limit -d 'At most so many, the newest' -r
complete -c trainyard -n "__fish_trainyard_using_subcommand history; and __fish_seen_subcommand_from list" -l format -d 'How results are printed' -r -f -a "table\t'For people'
json\t'For programs: one document with its schema'"
complete -c trainyard -n "__fish_trainyard_using_subcommand history; and __fish_seen_subcommand_from list" -l history -d 'Where results are kept, or `off` [default: $TRAINYARD_HISTORY, or runs/history.db]' -r -F
complete -c trainyard -n "__fish_trainyard_using_subcommand history; and __fish_seen_subcommand_from list" -l color -d 'When messages are coloured; NO_COLOR is respected' -r -f -a "auto\t'On a terminal'
always\t'Always'
never\t'Never'"
complete -c trainyard -n "__fish_trainyard_using_subcommand history; and __fish_seen_subcommand_from list" -s q -l quiet -d 'Say nothing but results and errors; with -v, results in full'
complete -c trainyard -n "__fish_trainyard_using_subcommand history; and __fish_seen_subcommand_from list" -s v -l verbose -d 'Show more: every plan on the front of time and cost, every row of a validation'
complete -c trainyard -n "__fish_trainyard_using_subcommand history; and __fish_seen_subcommand_from list" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c trainyard -n "__fish_trainyard_using_subcommand history; and __fish_seen_subcommand_from list" -s V -l version -d 'Print version'
complete -c trainyard -n "__fish_trainyard_using_subcommand history; and __fish_seen_subcommand_from show" -l format -d 'How results are printed' -r -f -a "table\t'For people'
json\t'For programs: one document with its schema'"
complete -c trainyard -n "__fish_trainyard_using_subcommand history; and __fish_seen_subcommand_from show" -l history -d 'Where results are kept, or `off` [default: $TRAINYARD_HISTORY, or runs/history.db]' -r -F
complete -c trainyard -n "__fish_trainyard_using_subcommand history; and __fish_seen_subcommand_from show" -l color -d 'When messages are coloured; NO_COLOR is respected' -r -f -a "auto\t'On a terminal'
always\t'Always'
never\t'Never'"
complete -c trainyard -n "__fish_trainyard_using_subcommand history; and __fish_seen_subcommand_from show" -l document -d 'Print only the document, as its command printed it for programs'
complete -c trainyard -n "__fish_trainyard_using_subcommand history; and __fish_seen_subcommand_from show" -s q -l quiet -d 'Say nothing but results and errors; with -v, results in full'
complete -c trainyard -n "__fish_trainyard_using_subcommand history; and __fish_seen_subcommand_from show" -s v -l verbose -d 'Show more: every plan on the front of time and cost, every row of a validation'
complete -c trainyard -n "__fish_trainyard_using_subcommand history; and __fish_seen_subcommand_from show" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c trainyard -n "__fish_trainyard_using_subcommand history; and __fish_seen_subcommand_from show" -s V -l version -d 'Print version'
complete -c trainyard -n "__fish_trainyard_using_subcommand history; and __fish_seen_subcommand_from compare" -l format -d 'How results are printed' -r -f -a "table\t'For people'
json\t'For programs: one document with its schema'"
complete -c trainyard -n "__fish_trainyard_using_subcommand history; and __fish_seen_subcommand_from compare" -l history -d 'Where results are kept, or `off` [default: $TRAINYARD_HISTORY, or runs/history.db]' -r -F
complete -c trainyard -n "__fish_trainyard_using_subcommand history; and __fish_seen_subcommand_from compare" -l color -d 'When messages are coloured; NO_COLOR is respected' -r -f -a "auto\t'On a terminal'
always\t'Always'
never\t'Never'"
complete -c trainyard -n "__fish_trainyard_using_subcommand history; and __fish_seen_subcommand_from compare" -s q -l quiet -d 'Say nothing but results and errors; with -v, results in full'
complete -c trainyard -n "__fish_trainyard_using_subcommand history; and __fish_seen_subcommand_from compare" -s v -l verbose -d 'Show more: every plan on the front of time and cost, every row of a validation'
complete -c trainyard -n "__fish_trainyard_using_subcommand history; and __fish_seen_subcommand_from compare" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c trainyard -n "__fish_trainyard_using_subcommand history; and __fish_seen_subcommand_from compare" -s V -l version -d 'Print version'
complete -c trainyard -n "__fish_trainyard_using_subcommand history; and __fish_seen_subcommand_from tag" -l format -d 'How results are printed' -r -f -a "table\t'For people'
json\t'For programs: one document with its schema'"
complete -c trainyard -n "__fish_trainyard_using_subcommand history; and __fish_seen_subcommand_from tag" -l history -d 'Where results are kept, or `off` [default: $TRAINYARD_HISTORY, or runs/history.db]' -r -F
complete -c trainyard -n "__fish_trainyard_using_subcommand history; and __fish_seen_subcommand_from tag" -l color -d 'When messages are coloured; NO_COLOR is respected' -r -f -a "auto\t'On a terminal'
always\t'Always'
never\t'Never'"
complete -c trainyard -n "__fish_trainyard_using_subcommand history; and __fish_seen_subcommand_from tag" -l remove -d 'Take them away'
complete -c trainyard -n "__fish_trainyard_using_subcommand history; and __fish_seen_subcommand_from tag" -s q -l quiet -d 'Say nothing but results and errors; with -v, results in full'
complete -c trainyard -n "__fish_trainyard_using_subcommand history; and __fish_seen_subcommand_from tag" -s v -l verbose -d 'Show more: every plan on the front of time and cost, every row of a validation'
complete -c trainyard -n "__fish_trainyard_using_subcommand history; and __fish_seen_subcommand_from tag" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c trainyard -n "__fish_trainyard_using_subcommand history; and __fish_seen_subcommand_from tag" -s V -l version -d 'Print version'
complete -c trainyard -n "__fish_trainyard_using_subcommand history; and __fish_seen_subcommand_from note" -l format -d 'How results are printed' -r -f -a "table\t'For people'
json\t'For programs: one document with its schema'"
complete -c trainyard -n "__fish_trainyard_using_subcommand history; and __fish_seen_subcommand_from note" -l history -d 'Where results are kept, or `off` [default: $TRAINYARD_HISTORY, or runs/history.db]' -r -F
complete -c trainyard -n "__fish_trainyard_using_subcommand history; and __fish_seen_subcommand_from note" -l color -d 'When messages are coloured; NO_COLOR is respected' -r -f -a "auto\t'On a terminal'
always\t'Always'
never\t'Never'"
complete -c trainyard -n "__fish_trainyard_using_subcommand history; and __fish_seen_subcommand_from note" -l remove -d 'Say nothing more'
complete -c trainyard -n "__fish_trainyard_using_subcommand history; and __fish_seen_subcommand_from note" -s q -l quiet -d 'Say nothing but results and errors; with -v, results in full'
complete -c trainyard -n "__fish_trainyard_using_subcommand history; and __fish_seen_subcommand_from note" -s v -l verbose -d 'Show more: every plan on the front of time and cost, every row of a validation'
complete -c trainyard -n "__fish_trainyard_using_subcommand history; and __fish_seen_subcommand_from note" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c trainyard -n "__fish_trainyard_using_subcommand history; and __fish_seen_subcommand_from note" -s V -l version -d 'Print version'
complete -c trainyard -n "__fish_trainyard_using_subcommand history; and __fish_seen_subcommand_from export" -l out -d 'Write there: into a folder, or one entry\'s document into a file that ends in .json' -r -F
complete -c trainyard -n "__fish_trainyard_using_subcommand history; and __fish_seen_subcommand_from export" -l format -d 'How results are printed' -r -f -a "table\t'For people'
json\t'For programs: one document with its schema'"
complete -c trainyard -n "__fish_trainyard_using_subcommand history; and __fish_seen_subcommand_from export" -l history -d 'Where results are kept, or `off` [default: $TRAINYARD_HISTORY, or runs/history.db]' -r -F
complete -c trainyard -n "__fish_trainyard_using_subcommand history; and __fish_seen_subcommand_from export" -l color -d 'When messages are coloured; NO_COLOR is respected' -r -f -a "auto\t'On a terminal'
always\t'Always'
never\t'Never'"
complete -c trainyard -n "__fish_trainyard_using_subcommand history; and __fish_seen_subcommand_from export" -s q -l quiet -d 'Say nothing but results and errors; with -v, results in full'
complete -c trainyard -n "__fish_trainyard_using_subcommand history; and __fish_seen_subcommand_from export" -s v -l verbose -d 'Show more: every plan on the front of time and cost, every row of a validation'
complete -c trainyard -n "__fish_trainyard_using_subcommand history; and __fish_seen_subcommand_from export" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c trainyard -n "__fish_trainyard_using_subcommand history; and __fish_seen_subcommand_from export" -s V -l version -d 'Print version'
complete -c trainyard -n "__fish_trainyard_using_subcommand history; and __fish_seen_subcommand_from prune" -l before -d 'Remove entries from before then' -r
complete -c trainyard -n "__fish_trainyard_using_subcommand history; and __fish_seen_subcommand_from prune" -l keep -d 'Remove all entries but so many, the newest' -r
complete -c trainyard -n "__fish_trainyard_using_subcommand history; and __fish_seen_subcommand_from prune" -l kind -d 'Only entries of this kind' -r -f -a "plan\t''
simulation\t''
what-if\t''
run\t''"
complete -c trainyard -n "__fish_trainyard_using_subcommand history; and __fish_seen_subcommand_from prune" -l format -d 'How results are printed' -r -f -a "table\t'For people'
json\t'For programs: one document with its schema'"
complete -c trainyard -n "__fish_trainyard_using_subcommand history; and __fish_seen_subcommand_from prune" -l history -d 'Where results are kept, or `off` [default: $TRAINYARD_HISTORY, or runs/history.db]' -r -F
complete -c trainyard -n "__fish_trainyard_using_subcommand history; and __fish_seen_subcommand_from prune" -l color -d 'When messages are coloured; NO_COLOR is respected' -r -f -a "auto\t'On a terminal'
always\t'Always'
never\t'Never'"
complete -c trainyard -n "__fish_trainyard_using_subcommand history; and __fish_seen_subcommand_from prune" -l tagged -d 'Remove entries with tags too'
complete -c trainyard -n "__fish_trainyard_using_subcommand history; and __fish_seen_subcommand_from prune" -l dry-run -d 'Only show what would be removed'
complete -c trainyard -n "__fish_trainyard_using_subcommand history; and __fish_seen_subcommand_from prune" -s q -l quiet -d 'Say nothing but results and errors; with -v, results in full'
complete -c trainyard -n "__fish_trainyard_using_subcommand history; and __fish_seen_subcommand_from prune" -s v -l verbose -d 'Show more: every plan on the front of time and cost, every row of a validation'
complete -c trainyard -n "__fish_trainyard_using_subcommand history; and __fish_seen_subcommand_from prune" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c trainyard -n "__fish_trainyard_using_subcommand history; and __fish_seen_subcommand_from prune" -s V -l version -d 'Print version'
complete -c trainyard -n "__fish_trainyard_using_subcommand history; and __fish_seen_subcommand_from help" -f -a "list" -d 'List what is kept, the newest first'
complete -c trainyard -n "__fish_trainyard_using_subcommand history; and __fish_seen_subcommand_from help" -f -a "show" -d 'Show an entry, and what its command printed'
complete -c trainyard -n "__fish_trainyard_using_subcommand history; and __fish_seen_subcommand_from help" -f -a "compare" -d 'Set two entries side by side'
complete -c trainyard -n "__fish_trainyard_using_subcommand history; and __fish_seen_subcommand_from help" -f -a "tag" -d 'Give an entry tags, or take them away'
complete -c trainyard -n "__fish_trainyard_using_subcommand history; and __fish_seen_subcommand_from help" -f -a "note" -d 'Say something of an entry'
complete -c trainyard -n "__fish_trainyard_using_subcommand history; and __fish_seen_subcommand_from help" -f -a "export" -d 'Write documents into files, where other commands read them'
complete -c trainyard -n "__fish_trainyard_using_subcommand history; and __fish_seen_subcommand_from help" -f -a "prune" -d 'Remove old entries; those with tags stay'
complete -c trainyard -n "__fish_trainyard_using_subcommand history; and __fish_seen_subcommand_from help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c trainyard -n "__fish_trainyard_using_subcommand prices; and not __fish_seen_subcommand_from import help" -l format -d 'How results are printed' -r -f -a "table\t'For people'
json\t'For programs: one document with its schema'"
complete -c trainyard -n "__fish_trainyard_using_subcommand prices; and not __fish_seen_subcommand_from import help" -l history -d 'Where results are kept, or `off` [default: $TRAINYARD_HISTORY, or runs/history.db]' -r -F
complete -c trainyard -n "__fish_trainyard_using_subcommand prices; and not __fish_seen_subcommand_from import help" -l color -d 'When messages are coloured; NO_COLOR is respected' -r -f -a "auto\t'On a terminal'
always\t'Always'
never\t'Never'"
complete -c trainyard -n "__fish_trainyard_using_subcommand prices; and not __fish_seen_subcommand_from import help" -s q -l quiet -d 'Say nothing but results and errors; with -v, results in full'
complete -c trainyard -n "__fish_trainyard_using_subcommand prices; and not __fish_seen_subcommand_from import help" -s v -l verbose -d 'Show more: every plan on the front of time and cost, every row of a validation'
complete -c trainyard -n "__fish_trainyard_using_subcommand prices; and not __fish_seen_subcommand_from import help" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c trainyard -n "__fish_trainyard_using_subcommand prices; and not __fish_seen_subcommand_from import help" -s V -l version -d 'Print version'
complete -c trainyard -n "__fish_trainyard_using_subcommand prices; and not __fish_seen_subcommand_from import help" -f -a "import" -d 'Read files that the AWS command line has printed, or SkyPilot\'s catalog'
complete -c trainyard -n "__fish_trainyard_using_subcommand prices; and not __fish_seen_subcommand_from import help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c trainyard -n "__fish_trainyard_using_subcommand prices; and __fish_seen_subcommand_from import" -l out -d 'Write the table of prices to this file [default: standard output]' -r -F
complete -c trainyard -n "__fish_trainyard_using_subcommand prices; and __fish_seen_subcommand_from import" -l quotas -d 'Write the quotas to this file' -r -F
complete -c trainyard -n "__fish_trainyard_using_subcommand prices; and __fish_seen_subcommand_from import" -l format -d 'How results are printed' -r -f -a "table\t'For people'
json\t'For programs: one document with its schema'"
complete -c trainyard -n "__fish_trainyard_using_subcommand prices; and __fish_seen_subcommand_from import" -l history -d 'Where results are kept, or `off` [default: $TRAINYARD_HISTORY, or runs/history.db]' -r -F
complete -c trainyard -n "__fish_trainyard_using_subcommand prices; and __fish_seen_subcommand_from import" -l color -d 'When messages are coloured; NO_COLOR is respected' -r -f -a "auto\t'On a terminal'
always\t'Always'
never\t'Never'"
complete -c trainyard -n "__fish_trainyard_using_subcommand prices; and __fish_seen_subcommand_from import" -s q -l quiet -d 'Say nothing but results and errors; with -v, results in full'
complete -c trainyard -n "__fish_trainyard_using_subcommand prices; and __fish_seen_subcommand_from import" -s v -l verbose -d 'Show more: every plan on the front of time and cost, every row of a validation'
complete -c trainyard -n "__fish_trainyard_using_subcommand prices; and __fish_seen_subcommand_from import" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c trainyard -n "__fish_trainyard_using_subcommand prices; and __fish_seen_subcommand_from import" -s V -l version -d 'Print version'
complete -c trainyard -n "__fish_trainyard_using_subcommand prices; and __fish_seen_subcommand_from help" -f -a "import" -d 'Read files that the AWS command line has printed, or SkyPilot\'s catalog'
complete -c trainyard -n "__fish_trainyard_using_subcommand prices; and __fish_seen_subcommand_from help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c trainyard -n "__fish_trainyard_using_subcommand show" -l constants -d 'GPUs, links and stacks that override those of the catalog' -r -F
complete -c trainyard -n "__fish_trainyard_using_subcommand show" -l format -d 'How results are printed' -r -f -a "table\t'For people'
json\t'For programs: one document with its schema'"
complete -c trainyard -n "__fish_trainyard_using_subcommand show" -l history -d 'Where results are kept, or `off` [default: $TRAINYARD_HISTORY, or runs/history.db]' -r -F
complete -c trainyard -n "__fish_trainyard_using_subcommand show" -l color -d 'When messages are coloured; NO_COLOR is respected' -r -f -a "auto\t'On a terminal'
always\t'Always'
never\t'Never'"
complete -c trainyard -n "__fish_trainyard_using_subcommand show" -s q -l quiet -d 'Say nothing but results and errors; with -v, results in full'
complete -c trainyard -n "__fish_trainyard_using_subcommand show" -s v -l verbose -d 'Show more: every plan on the front of time and cost, every row of a validation'
complete -c trainyard -n "__fish_trainyard_using_subcommand show" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c trainyard -n "__fish_trainyard_using_subcommand show" -s V -l version -d 'Print version'
complete -c trainyard -n "__fish_trainyard_using_subcommand schemas" -l out -d 'Write the files into this folder' -r -F
complete -c trainyard -n "__fish_trainyard_using_subcommand schemas" -l format -d 'How results are printed' -r -f -a "table\t'For people'
json\t'For programs: one document with its schema'"
complete -c trainyard -n "__fish_trainyard_using_subcommand schemas" -l history -d 'Where results are kept, or `off` [default: $TRAINYARD_HISTORY, or runs/history.db]' -r -F
complete -c trainyard -n "__fish_trainyard_using_subcommand schemas" -l color -d 'When messages are coloured; NO_COLOR is respected' -r -f -a "auto\t'On a terminal'
always\t'Always'
never\t'Never'"
complete -c trainyard -n "__fish_trainyard_using_subcommand schemas" -s q -l quiet -d 'Say nothing but results and errors; with -v, results in full'
complete -c trainyard -n "__fish_trainyard_using_subcommand schemas" -s v -l verbose -d 'Show more: every plan on the front of time and cost, every row of a validation'
complete -c trainyard -n "__fish_trainyard_using_subcommand schemas" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c trainyard -n "__fish_trainyard_using_subcommand schemas" -s V -l version -d 'Print version'
complete -c trainyard -n "__fish_trainyard_using_subcommand completions" -l format -d 'How results are printed' -r -f -a "table\t'For people'
json\t'For programs: one document with its schema'"
complete -c trainyard -n "__fish_trainyard_using_subcommand completions" -l history -d 'Where results are kept, or `off` [default: $TRAINYARD_HISTORY, or runs/history.db]' -r -F
complete -c trainyard -n "__fish_trainyard_using_subcommand completions" -l color -d 'When messages are coloured; NO_COLOR is respected' -r -f -a "auto\t'On a terminal'
always\t'Always'
never\t'Never'"
complete -c trainyard -n "__fish_trainyard_using_subcommand completions" -s q -l quiet -d 'Say nothing but results and errors; with -v, results in full'
complete -c trainyard -n "__fish_trainyard_using_subcommand completions" -s v -l verbose -d 'Show more: every plan on the front of time and cost, every row of a validation'
complete -c trainyard -n "__fish_trainyard_using_subcommand completions" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c trainyard -n "__fish_trainyard_using_subcommand completions" -s V -l version -d 'Print version'
complete -c trainyard -n "__fish_trainyard_using_subcommand man" -l out -d 'Write a page for each command into this folder' -r -F
complete -c trainyard -n "__fish_trainyard_using_subcommand man" -l format -d 'How results are printed' -r -f -a "table\t'For people'
json\t'For programs: one document with its schema'"
complete -c trainyard -n "__fish_trainyard_using_subcommand man" -l history -d 'Where results are kept, or `off` [default: $TRAINYARD_HISTORY, or runs/history.db]' -r -F
complete -c trainyard -n "__fish_trainyard_using_subcommand man" -l color -d 'When messages are coloured; NO_COLOR is respected' -r -f -a "auto\t'On a terminal'
always\t'Always'
never\t'Never'"
complete -c trainyard -n "__fish_trainyard_using_subcommand man" -s q -l quiet -d 'Say nothing but results and errors; with -v, results in full'
complete -c trainyard -n "__fish_trainyard_using_subcommand man" -s v -l verbose -d 'Show more: every plan on the front of time and cost, every row of a validation'
complete -c trainyard -n "__fish_trainyard_using_subcommand man" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c trainyard -n "__fish_trainyard_using_subcommand man" -s V -l version -d 'Print version'
complete -c trainyard -n "__fish_trainyard_using_subcommand help; and not __fish_seen_subcommand_from train plan simulate explain report what-if export run compare calibrate validate serve history prices show schemas completions man help" -f -a "train" -d 'Train on this machine: calibrate if needed, plan, simulate, run, and compare; a job, or a list of them'
complete -c trainyard -n "__fish_trainyard_using_subcommand help; and not __fish_seen_subcommand_from train plan simulate explain report what-if export run compare calibrate validate serve history prices show schemas completions man help" -f -a "plan" -d 'Recommend instances and a way to split the work, for a job or for a fleet of them that share a pool'
complete -c trainyard -n "__fish_trainyard_using_subcommand help; and not __fish_seen_subcommand_from train plan simulate explain report what-if export run compare calibrate validate serve history prices show schemas completions man help" -f -a "simulate" -d 'Simulate one step of a plan, its whole training, or a queue of jobs on a pool of instances'
complete -c trainyard -n "__fish_trainyard_using_subcommand help; and not __fish_seen_subcommand_from train plan simulate explain report what-if export run compare calibrate validate serve history prices show schemas completions man help" -f -a "explain" -d 'Explain where the step of a plan goes, or set two plans side by side'
complete -c trainyard -n "__fish_trainyard_using_subcommand help; and not __fish_seen_subcommand_from train plan simulate explain report what-if export run compare calibrate validate serve history prices show schemas completions man help" -f -a "report" -d 'Write a plan as one HTML page: the recommendation in words, plots, tables, and what it rests on'
complete -c trainyard -n "__fish_trainyard_using_subcommand help; and not __fish_seen_subcommand_from train plan simulate explain report what-if export run compare calibrate validate serve history prices show schemas completions man help" -f -a "what-if" -d 'Vary anything of a job or a plan and see what it changes'
complete -c trainyard -n "__fish_trainyard_using_subcommand help; and not __fish_seen_subcommand_from train plan simulate explain report what-if export run compare calibrate validate serve history prices show schemas completions man help" -f -a "export" -d 'Write a plan as launch files for another engine or service'
complete -c trainyard -n "__fish_trainyard_using_subcommand help; and not __fish_seen_subcommand_from train plan simulate explain report what-if export run compare calibrate validate serve history prices show schemas completions man help" -f -a "run" -d 'Run a plan on this machine'
complete -c trainyard -n "__fish_trainyard_using_subcommand help; and not __fish_seen_subcommand_from train plan simulate explain report what-if export run compare calibrate validate serve history prices show schemas completions man help" -f -a "compare" -d 'Compare what a plan predicted with what a run measured'
complete -c trainyard -n "__fish_trainyard_using_subcommand help; and not __fish_seen_subcommand_from train plan simulate explain report what-if export run compare calibrate validate serve history prices show schemas completions man help" -f -a "calibrate" -d 'Measure this machine and write its profile, or refit constants from measurements'
complete -c trainyard -n "__fish_trainyard_using_subcommand help; and not __fish_seen_subcommand_from train plan simulate explain report what-if export run compare calibrate validate serve history prices show schemas completions man help" -f -a "validate" -d 'Predict published measurements and show how far off that is'
complete -c trainyard -n "__fish_trainyard_using_subcommand help; and not __fish_seen_subcommand_from train plan simulate explain report what-if export run compare calibrate validate serve history prices show schemas completions man help" -f -a "serve" -d 'Serve the what-if page and its JSON API, on this machine unless told otherwise'
complete -c trainyard -n "__fish_trainyard_using_subcommand help; and not __fish_seen_subcommand_from train plan simulate explain report what-if export run compare calibrate validate serve history prices show schemas completions man help" -f -a "history" -d 'List, show, compare, tag, export and prune what was planned, simulated and run'
complete -c trainyard -n "__fish_trainyard_using_subcommand help; and not __fish_seen_subcommand_from train plan simulate explain report what-if export run compare calibrate validate serve history prices show schemas completions man help" -f -a "prices" -d 'Read what the AWS command line prints about an account, as prices and quotas that `plan` takes'
complete -c trainyard -n "__fish_trainyard_using_subcommand help; and not __fish_seen_subcommand_from train plan simulate explain report what-if export run compare calibrate validate serve history prices show schemas completions man help" -f -a "show" -d 'Show what the catalogs hold, with the source of every number'
complete -c trainyard -n "__fish_trainyard_using_subcommand help; and not __fish_seen_subcommand_from train plan simulate explain report what-if export run compare calibrate validate serve history prices show schemas completions man help" -f -a "schemas" -d 'Write the JSON Schemas of files and results, and the description of the server\'s API'
complete -c trainyard -n "__fish_trainyard_using_subcommand help; and not __fish_seen_subcommand_from train plan simulate explain report what-if export run compare calibrate validate serve history prices show schemas completions man help" -f -a "completions" -d 'Print completions for a shell'
complete -c trainyard -n "__fish_trainyard_using_subcommand help; and not __fish_seen_subcommand_from train plan simulate explain report what-if export run compare calibrate validate serve history prices show schemas completions man help" -f -a "man" -d 'Print the manual page, or write those of all commands'
complete -c trainyard -n "__fish_trainyard_using_subcommand help; and not __fish_seen_subcommand_from train plan simulate explain report what-if export run compare calibrate validate serve history prices show schemas completions man help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c trainyard -n "__fish_trainyard_using_subcommand help; and __fish_seen_subcommand_from history" -f -a "list" -d 'List what is kept, the newest first'
complete -c trainyard -n "__fish_trainyard_using_subcommand help; and __fish_seen_subcommand_from history" -f -a "show" -d 'Show an entry, and what its command printed'
complete -c trainyard -n "__fish_trainyard_using_subcommand help; and __fish_seen_subcommand_from history" -f -a "compare" -d 'Set two entries side by side'
complete -c trainyard -n "__fish_trainyard_using_subcommand help; and __fish_seen_subcommand_from history" -f -a "tag" -d 'Give an entry tags, or take them away'
complete -c trainyard -n "__fish_trainyard_using_subcommand help; and __fish_seen_subcommand_from history" -f -a "note" -d 'Say something of an entry'
complete -c trainyard -n "__fish_trainyard_using_subcommand help; and __fish_seen_subcommand_from history" -f -a "export" -d 'Write documents into files, where other commands read them'
complete -c trainyard -n "__fish_trainyard_using_subcommand help; and __fish_seen_subcommand_from history" -f -a "prune" -d 'Remove old entries; those with tags stay'
complete -c trainyard -n "__fish_trainyard_using_subcommand help; and __fish_seen_subcommand_from prices" -f -a "import" -d 'Read files that the AWS command line has printed, or SkyPilot\'s catalog'
