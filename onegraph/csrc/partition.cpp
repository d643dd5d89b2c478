#include <cstddef>
#include <vector>

#include "guard.h"

extern "C" int onegraph_partition_ids(
        dnnl_graph_partition_t partition, size_t *sizes, size_t capacity, size_t *ids) {
    return onegraph::guarded([&] {
        dnnl_status_t status = dnnl_graph_partition_get_op_num(partition, &sizes[0]);
        if (!status) status = dnnl_graph_partition_get_input_ports_num(partition, &sizes[1]);
        if (!status) status = dnnl_graph_partition_get_output_ports_num(partition, &sizes[2]);
        if (status) return status;
        if (sizes[0] + sizes[1] + sizes[2] > capacity) return dnnl_invalid_arguments;
        status = dnnl_graph_partition_get_ops(partition, sizes[0], ids);
        std::vector<dnnl_graph_logical_tensor_t> ports(sizes[1] + sizes[2]);
        dnnl_graph_logical_tensor_t *outputs = ports.data() + sizes[1];
        // The library refuses to fill an array of no elements.
        if (!status && sizes[1]) status = dnnl_graph_partition_get_input_ports(partition, sizes[1], ports.data());
        if (!status && sizes[2]) status = dnnl_graph_partition_get_output_ports(partition, sizes[2], outputs);
        for (std::size_t i = 0; !status && i < ports.size(); i++)
            ids[sizes[0] + i] = ports[i].id;
        return status;
    });
}
