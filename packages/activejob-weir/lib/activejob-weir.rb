# frozen_string_literal: true

require "active_job"
require "weir/version"
require "weir/connection"
require "active_job/queue_adapters/weir_adapter"

ActiveSupport.on_load(:active_job) do
  # Members of the pushed job, such as `self.weir_options = { retry: 5, custom: { unique_for: 60 } }`.
  class_attribute :weir_options, instance_accessor: false, default: {}
end
