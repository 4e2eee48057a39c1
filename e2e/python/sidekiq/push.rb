# Pushes COUNT jobs of CLASS to QUEUE in bulk: push.rb CLASS QUEUE COUNT [ARGUMENT]. Each gets its number,
# a text, numbers that floats can't hold, unicode; or ARGUMENT, if there is one.
require_relative "jobs"

name, queue, count, argument = ARGV
numbers = (0...count.to_i)
File.open(ENV["PUSHED_LOG"] || File::NULL, "a") do |pushed|
  numbers.each_slice(1_000) do |slice|
    args = slice.map do |n|
      next [JSON.parse(argument)] if argument
      [n, "x" * (n % 300), { "big" => 12_345_678_901_234_567_890 + n, "float" => 0.1, "text" => "\u00fc\u2028\"\\" }, nil]
    end
    jids = Sidekiq::Client.push_bulk("class" => name, "queue" => queue, "args" => args, "mine" => { "a" => 1.50 })
    jids.zip(args) { |jid, arguments| pushed.puts("#{jid}\t#{Sidekiq.dump_json(arguments)}") }
  end
end
